// Package cfssl has cfssl sign for package signer, and is the only one that imports
// it.
//
// [NewLocal] returns an issue.Sign by cfssl's local signer, with the key of the CA
// that it is given. A [Remote] is a CA whose key is on cfssl servers (cfssl serve,
// multirootca): its Sign has one of them sign, over HTTPS and with an HMAC, and its
// Info asks what the CA's certificate is. A server that does not work is not asked
// for a while (remote.Breaker), and the next one is.
//
// Nothing that a server answers is trusted: issue.Issue checks what is signed, and
// [Error] says in one word, and in a sentence that fits in a condition, why there is
// no certificate.
package cfssl
