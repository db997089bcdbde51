// Package correct decides which flags (and variables) are taken back that the webhook
// gave to containers without an explicit request.
//
// Such a gift is an attempt ([api.AttemptOf]). A program that does not know the flags
// exits, or ignores them, and its pod never becomes ready or is killed again and again. The rotator
// sees that in the pod's status, or dials the pod, and writes a fact about the attempt on the Service ([state.Flags]). The
// webhook then leaves the attempt out of new pods, and the rotator deletes the pods that
// crash or are not ready, so that their controllers make them anew.
//
// The unit of a decision is a namespace ([Situation], [Decide], [Decision]):
//
//	kin            what the pods of a template show about each other
//	evidenceOf     what the end of a program's log says about what it was given
//	judgeUnready   whether a pod that fails its probes serves plaintext because of it
//	judge          whether a crash is the attempt's fault: how it ended, what the log
//	               says, and how other pods of the workload do
//	Decide         the facts that follow, and which pods are deleted
//	trim           which facts are dropped when there are too many
//
// A program that names what it was given is believed, and that holds for its namespace. One
// that says nothing about the cause is on trial: only without the attempt it shows whether
// that was the cause. If its workload exits without the attempt too, the attempt is cleared,
// and new pods get it again.
//
// All that a decision rests on is read from objects, so a new leader goes on where the
// one before was. Only what was reported about pods that no Service knows is remembered in the
// process ([Memory]).
//
// Whoever can write a pod can forge its status and so have attempts withheld, and pods
// deleted that crash, but in the pod's own namespace alone, and only if that is opted in.
//
// The package is pure; its controller is in package correct/controller.
package correct
