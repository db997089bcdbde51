// Package queue is the queue of controllers. Tenants take turns in the order of fairqueue.Queue, and failed
// requests are retried with backoff.
package queue
