// Package failing finds the pods that fail after the webhook gave them something.
//
// What the webhook adds is what a program is known to take, or what somebody asked for, and still
// a program may exit because of it, or never become ready. Nothing is taken back by itself: the
// Service's condition and an event quote the end of what the program wrote, and name the
// annotation that leaves out what was added.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). A container that was given
// something fails if
//
//   - it exited with an error, was restarted three times or more, and is not ready, or not for
//     longer than a minute, or
//   - its pod has not been ready in the first minute after its containers could start.
//
// A workload whose operator deletes such pods again and again soon after it created them is
// reported too ([Rounds]).
//
// Whoever can write a pod can forge its status, and so what is said of the Services of the pod's
// own namespace.
//
// The package is pure; its controller is in package failing/controller.
package failing
