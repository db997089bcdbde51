// Package queue is the queue of the signer's controllers: namespaces take turns, as
// signer.Turns decides, and what failed is tried again, later each time.
package queue
