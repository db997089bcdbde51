// Package restart decides which workloads with stale pods are restarted, when, and why the others
// are not.
//
// Only workloads that request it are restarted: those whose pod template is annotated
// servingcert.dev/on-rotate: restart, and whose pods are stale ([serving.StaleWorkload]). A restart
// is what kubectl rollout restart does, at most once per certificate. The time in the template's
// annotation kubectl.kubernetes.io/restartedAt records it, whoever restarted the workload, so no
// record of our own can be lost.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). Workloads, Services and
// PodDisruptionBudgets are not watched. They are read when a workload may be about to be restarted: a
// Decision with [Need]s lists what to read before the next call of Decide.
//
//	evaluate        runs the checks in order; the first that applies gives the [Hold],
//	                the reason of metric servingcert_restarts_held
//	track           follows the current rollouts: one per namespace, and --max-restarts
//	                in the cluster, until each is complete or stuck
//	WorkloadStatus  a workload as read from the API server, by the rules of kubectl
//	                rollout status
//	State           what the leader remembers of all namespaces
//
// There are three kinds of holds. Some end without anyone's action: another workload is being
// restarted. Some need an action: a Deployment is paused, a budget allows no disruption. With some,
// a restart is not possible, and a person has to replace the pods. An event reports the latter two
// once they have lasted for a while.
//
// A rollout that is stuck, or has lasted for Limits.PlaceFor, no longer counts towards
// --max-restarts, so that one workload cannot block the cluster. But no other workload of its
// namespace is restarted. Namespaces whose workloads wait for a place take turns.
//
// The package is pure; its controller is in package restart/controller.
package restart
