//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// moments knows when the pods of a namespace were made, first crashed and were first ready,
// from watching them: also of those that are gone.
type moments struct {
	mu   sync.Mutex
	pods map[types.UID]*moment
}

type moment struct {
	name, app            string
	flags                bool
	made, crashed, ready time.Time // zero until then
}

// watchMoments returns when all pods of the namespace are known; it goes on until the test
// ends.
func watchMoments(t *testing.T, clients kubernetes.Interface, namespace string) *moments {
	t.Helper()
	m := &moments{pods: map[types.UID]*moment{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { m.saw(obj.(*corev1.Pod), time.Now()) },
		UpdateFunc: func(_, obj any) { m.saw(obj.(*corev1.Pod), time.Now()) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the pods of namespace " + namespace + " are not known")
	}
	return m
}

func (m *moments) saw(pod *corev1.Pod, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.pods[pod.UID]
	if seen == nil {
		seen = &moment{name: pod.Name, app: pod.Labels["app"], flags: hasFlags(pod), made: now}
		m.pods[pod.UID] = seen
	}
	for _, s := range pod.Status.ContainerStatuses {
		// A program that is told to end may end with an error.
		if seen.crashed.IsZero() && pod.DeletionTimestamp == nil && (s.State.Terminated != nil || s.LastTerminationState.Terminated != nil) {
			seen.crashed = now
		}
	}
	if seen.ready.IsZero() && isReady(pod) {
		seen.ready = now
	}
}

// count returns how many pods with the label app there have been.
func (m *moments) count(app string) int { return len(m.of(app)) }

func (m *moments) of(app string) []moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []moment
	for _, p := range m.pods {
		if p.app == app {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b moment) int { return a.ready.Compare(b.ready) })
	return out
}

// took says of each pod of the app that is ready without flags how long that was after the
// first crash of one with flags or, if none crashed, after the first was made.
func (m *moments) took(app string) []string {
	all := m.of(app)
	var made, crashed time.Time
	withFlags := 0
	for _, p := range all {
		if p.flags {
			withFlags++
			made, crashed = earlier(made, p.made), earlier(crashed, p.crashed)
		}
	}
	from, what := crashed, "the first crash"
	if crashed.IsZero() {
		from, what = made, "the first was made"
	}
	var out []string
	for _, p := range all {
		if !p.flags && !p.ready.IsZero() {
			out = append(out, fmt.Sprintf("%s: ready without flags %s after %s; %d made with flags", p.name, seconds(p.ready.Sub(from)), what, withFlags))
		}
	}
	return out
}

// earlier returns the earlier of two times, of which either may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
