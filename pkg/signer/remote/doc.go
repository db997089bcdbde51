// Package remote is what the ways to a CA outside of this process have in common: the
// [Error] that says why there is no certificate, in one word and in a sentence that fits in
// a condition; the [Breaker] that leaves alone what does not work; and [Anchor], which
// finds the root that clients must trust. Packages cfssl and certmanager are the ways.
package remote
