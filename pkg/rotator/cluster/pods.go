package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Pods is the cache of the facts of all pods that have not terminated.
type Pods struct {
	*facts.Informer[*pods.Facts]
}

// running excludes terminated pods: Jobs may leave thousands.
var running = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// The indexes: by mounted key (pods.NamespacedKey), and mirror pods by namespace.
const (
	byMount  = "mount"
	byMirror = "mirror"
)

func podOptions() facts.Options[*corev1.Pod, *pods.Facts] {
	return facts.Options[*corev1.Pod, *pods.Facts]{
		Example: &corev1.Pod{}, Field: running, Derive: pods.FactsOf,
		Indexers: map[string]func(*pods.Facts) []string{
			byMount: func(f *pods.Facts) []string {
				var keys []string
				for _, key := range f.Keys() {
					keys = append(keys, pods.NamespacedKey{Namespace: f.Namespace, Key: key}.String())
				}
				return keys
			},
			byMirror: func(f *pods.Facts) []string {
				if !f.Template.Value().Mirror() {
					return nil
				}
				return []string{f.Namespace}
			},
		},
		// A standby would cache every pod of the cluster for one metric only. It fills the cache in
		// seconds when it becomes the leader.
		LeaderOnly: true,
	}
}

// In returns the pods of a namespace.
func (p *Pods) In(namespace string) []*pods.Facts { return slices.Collect(p.Informer.In(namespace)) }

// Mounting returns the pods that mount the key.
func (p *Pods) Mounting(key pods.NamespacedKey) []*pods.Facts {
	return p.ByIndex(byMount, key.String())
}

// Mirrors returns the mirror pods of the namespace, which Mounting never returns.
func (p *Pods) Mirrors(namespace string) []*pods.Facts { return p.ByIndex(byMirror, namespace) }
