package serviceindex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/signertest"
)

// permitting permits names below a suffix, and addresses.
func permitting() api.Limits {
	limits := api.DefaultLimits()
	limits.PermitClusterIPs = true
	limits.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "*", Suffix: "example.com"}}
	return limits
}

func keyOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}

// An Index finds the same as a scan of all Services, after any changes.
func TestIndexFindsTheSameAsAScan(t *testing.T) {
	pairs := []string{"app=a", "app=b", "tier=x", "tier=y"}
	names := []string{"www.example.com", "api.example.com", "*.example.com", "ip/10.0.0.1"}
	rapid.Check(t, func(t *rapid.T) {
		limits := permitting()
		index := serviceindex.New(limits)
		there := map[types.NamespacedName]*corev1.Service{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			key := types.NamespacedName{Namespace: rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"s1", "s2", "s3"}).Draw(t, "name")}
			before := there[key]
			if before != nil && rapid.Bool().Draw(t, "delete") {
				delete(there, key)
				index.Change(before, nil)
				continue
			}
			after := drawService(t, key, pairs, names)
			there[key] = after
			index.Change(before, after)
			if rapid.IntRange(0, 9).Draw(t, "domains") == 0 {
				limits.FormerDomains = []string{fmt.Sprint("d", len(there), ".local")}
				index.Limit(limits, func(yield func(*corev1.Service) bool) {
					for _, svc := range there {
						if !yield(svc) {
							return
						}
					}
				})
			}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: drawLabels(t, pairs)}}
		require.Equal(t, found(there, func(svc *corev1.Service) bool { return svc.Namespace == "shop" && api.Selects(svc, pod) }), index.Selecting(pod))
		large := found(there, func(svc *corev1.Service) bool { return svc.Namespace == "shop" && api.CheckSize(svc) != nil })
		require.Equal(t, large[:min(1, len(large))], index.TooLarge("shop"))
		for _, name := range names {
			may := func(namespace string, proof bool) bool { return namespace == "shop" || proof }
			holders := func(svc *corev1.Service) bool {
				return slices.Contains(serviceindex.OtherNames(svc, limits), name) && may(svc.Namespace, state.ReadyOf(svc).Proof != "")
			}
			all := found(there, holders)
			require.Equal(t, all[:min(2, len(all))], index.Holding(name, 2, may))
		}
	})
}

// found returns those of the Services that ask and for which it holds, the oldest first.
func found(services map[types.NamespacedName]*corev1.Service, holds func(*corev1.Service) bool) (keys []types.NamespacedName) {
	var all []*corev1.Service
	for _, svc := range services {
		if api.Asks(svc) && holds(svc) {
			all = append(all, svc)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Service) int {
		if c := api.OlderFirst(a, b); c != 0 {
			return c
		}
		return strings.Compare(a.Namespace, b.Namespace)
	})
	for _, svc := range all {
		keys = append(keys, keyOf(svc))
	}
	return keys
}

func drawService(t *rapid.T, key types.NamespacedName, pairs, names []string) *corev1.Service {
	svc := signertest.Service(key.Name, api.AnnotationKeySource, "pod")
	svc.Namespace = key.Namespace
	svc.CreationTimestamp = metav1.NewTime(signertest.Epoch.Truncate(time.Second).Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Second))
	svc.Spec.Selector = drawLabels(t, pairs)
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		svc.Annotations = nil // no request
	case 1:
		svc.Annotations[api.AnnotationDuration] = "x" // an invalid request
	case 2:
		svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Reason: api.ReasonPodKeys, Message: "the pods make their keys"}, state.Ready{Proof: "proof"}).Both()
	case 6:
		svc.Spec.Ports = make([]corev1.ServicePort, api.MaxPorts+1)
		if rapid.Bool().Draw(t, "stripped") {
			svc = api.StripService(svc, signer.Keep(svc))
		}
	case 3:
		svc.Annotations[api.AnnotationClusterIPs] = "true"
		svc.Spec.ClusterIPs = []string{"10.0.0.1"}
	}
	if extra := rapid.SampledFrom(append(names[:3:3], "")).Draw(t, "extra"); extra != "" && svc.Annotations != nil {
		svc.Annotations[api.AnnotationExtraDNSNames] = extra
	}
	return svc
}

func drawLabels(t *rapid.T, pairs []string) map[string]string {
	labels := map[string]string{}
	for _, pair := range rapid.SliceOfN(rapid.SampledFrom(pairs), 0, 3).Draw(t, "labels") {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

// The cost of a lookup depends on its results, not on the number or the requests of other Services.
func TestLookupsCostWhatTheyFind(t *testing.T) {
	const n = 10_000
	index := serviceindex.New(permitting())
	for i := range n {
		svc := signertest.Service(fmt.Sprint("s", i), api.AnnotationKeySource, "pod", api.AnnotationExtraDNSNames, fmt.Sprintf("n%d.example.com,all.example.com", i))
		svc.Spec.Selector = map[string]string{"app": svc.Name, "tier": "all"}
		index.Change(nil, svc)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "s7", "tier": "all"}}}
	yes := func(string, bool) bool { return true }
	allocated := bounded.Allocated(func() {
		require.Len(t, index.Selecting(pod), 1)
		require.Len(t, index.Holding("all.example.com", 8, yes), 8)
		require.Len(t, index.Holding("n7.example.com", 8, yes), 1)
		require.Empty(t, index.Holding("none.example.com", 8, yes))
	})
	assert.Less(t, allocated, uint64(16<<10)*bounded.RaceFactor)

	for i := range n {
		svc := signertest.Service(fmt.Sprint("t", i), api.AnnotationKeySource, "pod")
		svc.Spec.Selector = map[string]string{"app": "flood"}
		index.Change(nil, svc)
	}
	pod.Labels = map[string]string{"app": "flood"}
	assert.Len(t, index.Selecting(pod), serviceindex.MaxSelecting)
}
