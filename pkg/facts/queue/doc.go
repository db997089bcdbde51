// Package queue is the queue of controllers: tenants take turns, as fair.Queue decides, and what failed is
// tried again, later each time.
package queue
