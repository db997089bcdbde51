package serving

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// link is what a pod has to send, as in pki.Links.
const link = "0123456789abcdef"

// sends returns the Service with what its pods have to send in condition Ready.
func sends(svc *corev1.Service, chain ...string) *corev1.Service {
	ready := state.ReadyOf(svc)
	said := api.Condition(svc, api.ConditionReady)
	ready.External, ready.Chain = true, chain
	svc.Status.Conditions = append(state.Say(*said, ready).Both(), slices.DeleteFunc(svc.Status.Conditions, func(c metav1.Condition) bool { return strings.HasPrefix(c.Type, api.ConditionReady) })...)
	return svc
}

func TestFollow(t *testing.T) {
	one, two, three := rotatortest.Leaf(1), rotatortest.Leaf(2), rotatortest.Leaf(3)
	known := certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, notBefore: rotatortest.Noon.Add(-time.Minute)}
	later := rotatortest.Noon.Add(time.Hour + time.Millisecond)
	at := later.Truncate(time.Second)
	rotated := certificate{leaf: two, named: []string{two}, since: at, former: []string{one}}
	unready := func(name string) *corev1.Service { return rotatortest.Asking(name, nil) }
	tests := []struct {
		name     string
		before   certificate
		services []*corev1.Service
		want     certificate
	}{
		{"no Service", known, nil, certificate{}},
		{"no condition", known, []*corev1.Service{unready("web")}, certificate{}},
		{"none was issued", certificate{}, []*corev1.Service{rotatortest.Ready("web", "")}, certificate{}},
		{"first", certificate{}, []*corev1.Service{rotatortest.Ready("web", one)}, certificate{leaf: one, named: []string{one}, since: at}},
		{"the same", known, []*corev1.Service{rotatortest.Ready("web", one)}, known},
		{"the same, and one that has none", known, []*corev1.Service{unready("a"), rotatortest.Ready("b", ""), rotatortest.Ready("web", one)}, known},
		{"renewed", known, []*corev1.Service{rotatortest.Ready("web", two)}, rotated},
		{"renewed, the signer is between two writes", known, []*corev1.Service{rotatortest.Ready("a", two), rotatortest.Ready("b", one)}, certificate{leaf: two, named: []string{two, one}, since: at, former: []string{one}}},
		{"renewed, the signer is between two writes, the other way round", known, []*corev1.Service{rotatortest.Ready("a", one), rotatortest.Ready("b", two)}, certificate{leaf: two, named: []string{one, two}, since: at, former: []string{one}}},
		{"still between them", certificate{leaf: two, named: []string{two, one}, since: rotatortest.Noon, former: []string{one}}, []*corev1.Service{rotatortest.Ready("a", two), rotatortest.Ready("b", one)}, certificate{leaf: two, named: []string{two, one}, since: rotatortest.Noon, former: []string{one}}},
		{"and done", certificate{leaf: two, named: []string{two, one}, since: rotatortest.Noon, former: []string{one}}, []*corev1.Service{rotatortest.Ready("a", two), rotatortest.Ready("b", two)}, certificate{leaf: two, named: []string{two}, since: rotatortest.Noon, former: []string{one}}},
		{"a renewal failed", known, []*corev1.Service{rotatortest.Ready("web", "")}, known},
		{"back to one from before", rotated, []*corev1.Service{rotatortest.Ready("web", one)}, certificate{leaf: one, named: []string{one}, since: at, former: []string{two}}},

		{"fromCondition", certificate{}, []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", one), one, rotatortest.Noon)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, fromCondition: true}},
		{"fromCondition of another Service", certificate{}, []*corev1.Service{rotatortest.Ready("a", one), rotatortest.Serves(rotatortest.Ready("web", one), one, rotatortest.Noon)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, fromCondition: true}},
		{"fromCondition, the latest", certificate{}, []*corev1.Service{rotatortest.Serves(rotatortest.Ready("a", two), one, rotatortest.Noon.Add(-time.Hour)), rotatortest.Serves(rotatortest.Ready("b", two), two, rotatortest.Noon)}, certificate{leaf: two, named: []string{two}, since: rotatortest.Noon, fromCondition: true}},
		{"fromCondition, the latest, before another", certificate{}, []*corev1.Service{
			rotatortest.Serves(rotatortest.Ready("a", two), two, rotatortest.Noon),
			rotatortest.Serves(rotatortest.Ready("b", two), one, rotatortest.Noon.Add(-time.Hour)),
		}, certificate{leaf: two, named: []string{two}, since: rotatortest.Noon, fromCondition: true}},
		{"fromCondition, and renewed since", certificate{}, []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", two), one, rotatortest.Noon)}, rotated},
		{"fromCondition, and a renewal failed", certificate{}, []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", ""), one, rotatortest.Noon)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, fromCondition: true}},
		{"the chain is corrected", certificate{leaf: one, named: []string{one}, since: rotatortest.Noon}, []*corev1.Service{sends(rotatortest.Ready("web", one), link)}, certificate{leaf: one, named: []string{one}, since: at, paths: []string{link}, corrected: true}},
		{"the chain is the same", certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, paths: []string{link}}, []*corev1.Service{sends(rotatortest.Ready("web", one), link)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, paths: []string{link}}},
		{"any chain will do", certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, paths: []string{link}}, []*corev1.Service{rotatortest.Ready("web", one)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon}},
		{"Ready names no leaf", certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, paths: []string{link}}, []*corev1.Service{rotatortest.Ready("web", "")}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, paths: []string{link}}},
		{"renewed, with another chain", known, []*corev1.Service{rotatortest.Ready("a", one), sends(rotatortest.Ready("web", two), link)}, certificate{leaf: two, named: []string{one, two}, since: at, former: []string{one}, paths: []string{link}}},
		{"fromCondition, with a chain", certificate{}, []*corev1.Service{rotatortest.Serves(sends(rotatortest.Ready("web", one), link), one, rotatortest.Noon)}, certificate{leaf: one, named: []string{one}, since: rotatortest.Noon, fromCondition: true, paths: []string{link}}},
		{"memory is better", known, []*corev1.Service{rotatortest.Serves(rotatortest.Ready("web", one), three, rotatortest.Noon.Add(time.Minute))}, known},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.before.follow(tt.services, later)) })
	}
}

// The time of a leaf is kept until it changes, whichever process leads.
func TestFollowKeepsTimeOfLeaf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, c := rotatortest.Noon, certificate{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "later")))
			n := rapid.IntRange(0, 30).Draw(t, "leaf")
			leaf := ""
			if n > 0 {
				leaf = rotatortest.Leaf(n)
			}
			next := rotatortest.Ready("web", leaf)
			if c.leaf != "" {
				rotatortest.Serves(next, c.leaf, c.since) // as this or another process has written
			}
			before := c
			c = before.follow([]*corev1.Service{next}, now)
			led := certificate{}.follow([]*corev1.Service{next}, now)
			assert.Equal(t, c.leaf, led.leaf)
			assert.Equal(t, c.since, led.since, "a new leader has the same")
			if leaf == "" || leaf == before.leaf {
				assert.Equal(t, before.since, c.since)
				assert.Equal(t, before.leaf, c.leaf)
			} else {
				assert.Equal(t, leaf, c.leaf)
				assert.Equal(t, now.Truncate(time.Second), c.since)
				assert.False(t, before.leaf != "" && !slices.Contains(c.known(), before.leaf), "what was is podState")
			}
			assert.NotContains(t, c.former, c.leaf)
			assert.LessOrEqual(t, len(c.former), maxFormer)
		}
	})
}
