// Package ca keeps the certificate authority that every serving certificate is
// signed by: it makes the CA on the first start, reads it after every other,
// publishes what clients must trust, and never replaces a CA that was lost.
//
// A [State] is all that the CA Secret holds, as [ParseState] reads it and
// [State.SecretData] writes it. [Decide] is pure: what was observed in, an
// action and its reason out. A [Controller] carries the decisions out and hands
// the CA to the signer ([Controller.Authority]).
//
// # Objects
//
// Secret servingcert-ca holds the CA, its private key included, and is read and
// written by the signer only. ConfigMap servingcert-ca-status holds what is
// public, the bundle above all. The Secret is always written first: a crash
// between the two writes leaves a CA that the next reconcile publishes, whereas
// the other order would leave a status without a CA, which is a loss.
//
// # The high-water mark
//
// A root must stay in the clients' bundles until the last leaf under it has
// expired. When that is, is written down with the generation *before* leaves are
// signed up to then, in steps of a day, so that it costs a write a day and not
// one a leaf: no leaf ends later than pki.Authority.SignUntil.
package ca
