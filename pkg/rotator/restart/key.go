package restart

import (
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Key identifies what is restarted at most once.
type Key struct {
	workload pods.Workload
	pod      string // the first of bare pods, which have no workload
	key      pods.Key
	leaf     string
}

// KeyOf returns the key of a stale workload.
func KeyOf(w serving.StaleWorkload) Key {
	k := Key{workload: w.Workload, key: w.Key, leaf: w.Leaf}
	if w.Workload.Bare() {
		k.pod = w.Pod
	}
	return k
}
