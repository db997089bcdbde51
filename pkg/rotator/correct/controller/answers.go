package controller

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Answers are what pods answered that were dialled for this controller.
type Answers struct {
	answered *cluster.Trigger // enqueues the namespace of a pod that has answered

	mu   sync.Mutex
	pods map[string]map[types.UID][]probe.Answer // by namespace
}

// NewAnswers returns no answers.
func NewAnswers(c *cluster.Cluster) *Answers {
	return &Answers{answered: cluster.NewTrigger("answers of pods that are not ready", c.Delay), pods: map[string]map[types.UID][]probe.Answer{}}
}

// Record takes in what a pod answered. It passes over those that were dialled for a
// Secret.
func (a *Answers) Record(key probe.Key, answers []probe.Answer) {
	if key.Of.Key != (pods.Key{}) {
		return
	}
	namespace := key.Of.Namespace
	a.mu.Lock()
	if a.pods[namespace] == nil {
		a.pods[namespace] = map[types.UID][]probe.Answer{}
	}
	a.pods[namespace][key.Pod] = probe.Merge(a.pods[namespace][key.Pod], answers)
	a.mu.Unlock()
	a.answered.EnqueueNamespace(namespace)
}

// of returns the answers of the pods, which are those of the namespace, and forgets all
// others.
func (a *Answers) of(namespace string, pods []*pods.Facts) map[types.UID][]probe.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := map[types.UID][]probe.Answer{}
	for _, p := range pods {
		if answers, ok := a.pods[namespace][p.UID]; ok && p.Unready != nil {
			kept[p.UID] = answers
		}
	}
	if len(kept) == 0 {
		delete(a.pods, namespace)
		return nil
	}
	a.pods[namespace] = kept
	return maps.Clone(kept)
}
