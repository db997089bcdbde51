package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestClientsOfServices: a change of a Service is a reason to look at the namespaces whose last decision rests on it, and
// at no others.
func TestClientsOfServices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, rests := newClients(), map[string][]types.NamespacedName{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 20).Draw(t, "decisions") {
			e := elsewhere{func(context.Context, types.NamespacedName) *corev1.Service { return nil }, map[types.NamespacedName]*corev1.Service{}}
			namespace := name.Draw(t, "namespace")
			rests[namespace] = nil
			for range rapid.IntRange(0, 4).Draw(t, "Services") {
				id := types.NamespacedName{Namespace: name.Draw(t, "of"), Name: name.Draw(t, "Service")}
				e.service(t.Context(), namespace, c)(id.Namespace, id.Name)
				rests[namespace] = append(rests[namespace], id)
			}
			c.keep(namespace, e.known)
		}
		for _, of := range []string{"a", "b", "c"} {
			want := []string{}
			for namespace, ids := range rests {
				if slices.ContainsFunc(ids, func(id types.NamespacedName) bool { return id.Namespace == of }) {
					want = append(want, namespace)
				}
			}
			if got := c.ofNamespace(of); !sameNames(want, got) {
				t.Fatalf("namespace %s: want %v, got %v", of, want, got)
			}
			for _, service := range []string{"a", "b", "c"} {
				id, want := types.NamespacedName{Namespace: of, Name: service}, []string{}
				for namespace, ids := range rests {
					if slices.Contains(ids, id) {
						want = append(want, namespace)
					}
				}
				if got := c.ofService(id); !sameNames(want, got) {
					t.Fatalf("%v: want %v, got %v", id, want, got)
				}
			}
		}
		for _, namespace := range []string{"a", "b", "c"} {
			c.keep(namespace, nil)
		}
		if len(c.of)+len(c.services) > 0 {
			t.Fatalf("something is remembered: %v", c.of)
		}
	})
}

func sameNames(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestClientsAreBounded: what is beyond the limit is read, and neither kept nor remembered.
func TestClientsAreBounded(t *testing.T) {
	reads := 0
	e := elsewhere{func(context.Context, types.NamespacedName) *corev1.Service { reads++; return nil }, map[types.NamespacedName]*corev1.Service{}}
	c := newClients()
	for range 2 {
		for i := range maxServices + 10 {
			e.service(t.Context(), "shop", c)("data", fmt.Sprint(i))
		}
	}
	assert.Equal(t, maxServices+20, reads)
	assert.Len(t, c.services["shop"], maxServices)
	assert.Empty(t, c.ofService(types.NamespacedName{Namespace: "data", Name: fmt.Sprint(maxServices)}))
}

// TestAChangeIsNotMissed: a Service is remembered before it is read.
func TestAChangeIsNotMissed(t *testing.T) {
	c := newClients()
	read := func(_ context.Context, id types.NamespacedName) *corev1.Service {
		assert.Equal(t, []string{"shop"}, c.ofService(id))
		return nil
	}
	e := elsewhere{read, map[types.NamespacedName]*corev1.Service{}}
	e.service(t.Context(), "shop", c)("data", "db")
	assert.Len(t, e.known, 1)
}
