// Package cfssl signs certificates with cfssl for package signer, and is the only package that
// imports cfssl.
//
// [NewLocal] returns an issue.Sign that uses cfssl's local signer with the key of the given CA.
// A [Remote] is a CA whose key is on cfssl servers (cfssl serve, multirootca): its Sign sends
// the request to one of them, over HTTPS and with an HMAC, and its Info returns the CA's
// certificate. After a failure of a server, the next one is used for some time (remote.Breaker).
//
// Answers of servers are not trusted: issue.Issue checks each certificate. An [Error] has the
// reason and message of the condition.
package cfssl
