// Package failing finds pods that fail after an injection.
//
// The webhook adds what a program is known to support, or what a user asked for. A program may
// still exit because of it, or never become ready. No injection is reverted automatically: the
// Service's condition and an event quote the end of the program's output, and name the annotation
// that prevents the addition.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). An injected container fails
// if
//
//   - it exited with an error, was restarted three times or more, and is not ready, or not for longer than a minute, or
//   - it was not ready within a minute after its first start, and its pod has never been ready.
//
// A workload whose operator repeatedly deletes such pods soon after their creation is reported too
// ([Rounds]).
//
// Whoever can write a pod can forge its status, and so affect the conditions of Services in the
// pod's own namespace.
//
// The package is pure; its controller is in package failing/controller.
package failing
