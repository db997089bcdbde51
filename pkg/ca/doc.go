// Package ca keeps the certificate authority that every serving certificate is
// signed by: it makes the CA on the first start, publishes what clients must
// trust, replaces the CA before it ends without a moment in which a client rejects
// a server, and never replaces one that was lost unasked.
//
// A [State] is all that the CA Secret holds, as [ParseState] reads it and
// [State.SecretData] writes it. [Decide] is pure: what was observed in, the next
// [Step] and why out; [Decision.Apply] is the state after it. A [Controller]
// gathers, writes, and hands the CA to the signer ([Controller.Authority]).
//
// # Objects
//
// Secret servingcert-ca holds the CA, its private key included, and is read and
// written by the signer only. ConfigMap servingcert-ca-status holds what is
// public, the bundle above all. The Secret is always written first: a crash
// between the two writes leaves a CA that the next reconcile publishes, whereas
// the other order would leave a status without a CA, which is a loss.
//
// # Succession
//
// A generation is made (Prepare), waits until the trust status says that every
// target holds its root (Wait), signs (Promote), and the roots before it leave
// when nobody needs them (Retire). Each step is one write, decided from what is
// stored then. Only adjacent generations are cross-signed; the chain that is
// served goes from the leaf down that ladder and never holds a root. A CA that a
// person brings, or that is elsewhere, is a [Candidate] and goes the same road.
//
// # The high-water mark
//
// A root must stay in the clients' bundles until the last leaf under it has
// expired, at least. When that is, is written down with the generation *before* leaves are
// signed up to then, in steps of a day, so that it costs a write a day and not
// one a leaf: no leaf ends later than pki.Authority.SignUntil.
package ca
