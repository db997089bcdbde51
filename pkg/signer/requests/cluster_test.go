package requests

import (
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/test/signertest"
)

// A namespace that was just labelled may not be in the cache yet. A pod must not be denied for
// that.
func TestANamespaceThatWasLabelledAMomentAgo(t *testing.T) {
	namespace := func(name, label string, finalizers ...string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: label}, Finalizers: finalizers}}
	}
	live := fake.NewClientBuilder().WithObjects(
		namespace("known", api.InjectEnabled), namespace("new", api.InjectEnabled), namespace("going", api.InjectEnabled, "example.com/x"), namespace("never", "no"),
	).WithIndex(&corev1.Namespace{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	require.NoError(t, live.Delete(t.Context(), namespace("going", "")))
	c := &Cluster{cache: fake.NewClientBuilder().WithObjects(namespace("known", api.InjectEnabled)).Build(), live: live}
	for name, want := range map[string]struct{ cached, live, terminating bool }{
		"known": {true, true, false},
		"new":   {false, true, false},
		"going": {false, true, true},
		"never": {false, false, false},
		"none":  {false, false, false},
	} {
		optedIn, terminating, err := c.Namespace(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want.cached, optedIn, name)
		assert.False(t, terminating, name)
		optedIn, terminating, err = c.LiveNamespace(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want.live, optedIn, name)
		assert.Equal(t, want.terminating, terminating, name)
	}
}

// services is a cache of Services that counts its reads.
type services struct {
	all  map[types.NamespacedName]*corev1.Service
	read int
}

func (s *services) Get(key types.NamespacedName) *corev1.Service {
	s.read++
	return s.all[key]
}

func (s *services) In(string) iter.Seq[*corev1.Service] {
	return func(yield func(*corev1.Service) bool) {
		for _, svc := range s.all {
			s.read++
			if !yield(svc) {
				return
			}
		}
	}
}

func (s *services) Handle(h func(before, after *corev1.Service)) {
	for _, svc := range s.all {
		h(nil, svc)
	}
}

func (s *services) Changes(string, facts.Handler[*corev1.Service]) source.SyncingSource { return nil }

// Of ten thousand Services, only those are read that the request concerns.
func TestADecisionReadsOnlyItsServices(t *testing.T) {
	s := &services{all: map[types.NamespacedName]*corev1.Service{}}
	limits := api.DefaultLimits()
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "example.com"}}
	for i := range 10_000 {
		svc := signertest.Service(fmt.Sprint("s", i), api.AnnotationKeySource, "pod", api.AnnotationExtraDNSNames, fmt.Sprintf("n%d.example.com,www.example.com", i))
		svc.Namespace = fmt.Sprint("n", i%10)
		svc.Spec.Selector = map[string]string{"app": svc.Name}
		s.all[client.ObjectKeyFromObject(svc)] = svc
	}
	optedIn := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n7"}}).Build()
	c := NewCluster(optedIn, nil, s, limits)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n7", Labels: map[string]string{"app": "s7"}}}
	selecting := c.Selecting(pod)
	require.Len(t, selecting, 1)
	assert.Equal(t, "s7", selecting[0].Name)
	assert.Empty(t, c.Selecting(nil))
	holders, err := c.Holding(t.Context(), []string{"n17.example.com", "www.example.com", "n8.example.com", "other.example.com"}, 8)
	require.NoError(t, err)
	assert.Equal(t, []types.NamespacedName{{Namespace: "n7", Name: "s17"}}, holders["n17.example.com"])
	assert.Len(t, holders["www.example.com"], 8)
	assert.Len(t, holders, 2, "namespace n8 is not opted in")
	assert.Len(t, c.Requesters(types.NamespacedName{Namespace: "n8", Name: "s8"}, types.NamespacedName{Name: "none"}), 1)
	assert.Equal(t, 3, s.read)

	assert.Len(t, c.OthersIn("n7"), 1001)
	c.limit(limits)
	assert.Equal(t, 3, s.read, "the same limits")
	limits.FormerDomains = []string{"old.local"}
	c.limit(limits)
	assert.Equal(t, 3+10_000, s.read)
	assert.Len(t, c.Selecting(pod), 1)
}
