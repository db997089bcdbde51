// Package restart decides which workloads are restarted whose pods serve an old
// certificate, when, and why the others are not.
//
// Only what asks for it is restarted: pods whose template is annotated
// servingcert.dev/on-rotate: restart, and that are stale ([serving.StaleWorkload]).
// A restart is what kubectl rollout restart does, once for a certificate: the time
// in annotation kubectl.kubernetes.io/restartedAt of the template says that it took
// place, whoever did it, so that no state of our own can be lost.
//
// The unit of work is a namespace ([Situation], [Decide], [Decision]). Workloads,
// Services and PodDisruptionBudgets are not watched. They are read when a workload
// may be about to be restarted, one after the other: a Decision with a [Need] says
// what to read before the next attempt, so that nothing is read in vain and a
// decision never rests on what is not known.
//
//	judge       the checks, in order: the first that finds something is the [Hold],
//	            the reason of metric servingcert_restarts_held
//	track       the rollouts that go on: one of a namespace at a time, and
//	            --max-restarts of the cluster, until each is complete or stuck
//	StandingOf  a workload as the API server has it, by the rules of kubectl
//	            rollout status
//	Memory      what a leader remembers of all namespaces
//
// A hold is of one of three kinds. Some pass by themselves: another workload has
// its turn. Some wait for somebody: a Deployment is paused, a budget allows no
// disruption. With some a restart is not possible at all, and a person has to
// replace the pods. The latter two are reported by an event once they have lasted.
//
// A rollout that is stuck, or has gone on for Limits.PlaceFor, does not count towards
// --max-restarts any more, so that one workload does not keep the cluster from its
// certificates; but no other workload of its namespace is restarted. Namespaces in
// which workloads wait for a place take turns.
//
// The package is pure; its controller is in package restart/controller.
package restart
