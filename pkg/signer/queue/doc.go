// Package queue is the queue of the signer's controllers: namespaces take turns, as
// fair.Queue decides, and what failed is tried again, later each time.
package queue
