package rotator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// staleWorkload is ready pods of one workload, or bare pods, that serve an older
// leaf of a Secret although the propagation time is over.
type staleWorkload struct {
	Workload Workload // zero for bare pods
	Secret   string
	// Leaf is the fingerprint of the one that they should serve, and Since when it
	// became that.
	Leaf  string
	Since time.Time
	// OnRotate is what the pods allow. Those of one workload that say different
	// things, as they do in a rollout, are several staleWorkloads.
	OnRotate api.OnRotate
	// Pods is how many there are. A pod that was created after Since does not
	// count: it read something else than the file, and a restart would not help.
	Pods int
	// Pod is the first of them by name.
	Pod    string
	PodUID types.UID
	// Service is the oldest that asks for the Secret.
	Service    string
	ServiceUID types.UID
}
