// Package remote is shared by the clients of remote CAs, packages cfssl and certmanager: an
// [Error] with the reason and message of a condition, a [Breaker] that stops requests to a
// server that fails, and [Anchor], which finds the root that clients must trust.
package remote
