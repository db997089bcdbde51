package rotator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// leafNo is a fingerprint.
func leafNo(n int) string { return fmt.Sprintf("%064x", n) }

// ready is a Service whose certificate is the given one, empty for a condition
// that names none.
func ready(name, leaf string) *corev1.Service {
	svc := asking(name, map[string]string{"app": "web"}, 8443)
	c := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "SigningFailed", Message: "no"}
	if leaf != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Issued", api.ReadyFacts{Secret: "web-tls", Leaf: leaf}.Message("names")
	}
	svc.Status.Conditions = append(svc.Status.Conditions, c)
	return svc
}

// serves adds what was said of what is served.
func serves(svc *corev1.Service, leaf string, since time.Time) *corev1.Service {
	svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{
		Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: api.ServingFacts{Leaf: leaf, Since: since}.Message("said"),
	})
	return svc
}

func TestFollow(t *testing.T) {
	one, two, three := leafNo(1), leafNo(2), leafNo(3)
	known := certificate{leaf: one, named: []string{one}, since: noon, notBefore: noon.Add(-time.Minute)}
	later := noon.Add(time.Hour + time.Millisecond)
	at := later.Truncate(time.Second)
	rotated := certificate{leaf: two, named: []string{two}, since: at, former: []string{one}}
	unready := func(name string) *corev1.Service { return asking(name, nil) }
	tests := []struct {
		name     string
		before   certificate
		services []*corev1.Service
		want     certificate
	}{
		{"nobody", known, nil, certificate{}},
		{"no condition", known, []*corev1.Service{unready("web")}, certificate{}},
		{"none was issued", certificate{}, []*corev1.Service{ready("web", "")}, certificate{}},
		{"first", certificate{}, []*corev1.Service{ready("web", one)}, certificate{leaf: one, named: []string{one}, since: at}},
		{"the same", known, []*corev1.Service{ready("web", one)}, known},
		{"the same, and one that has none", known, []*corev1.Service{unready("a"), ready("b", ""), ready("web", one)}, known},
		{"renewed", known, []*corev1.Service{ready("web", two)}, rotated},
		{"renewed, the signer is between two writes", known, []*corev1.Service{ready("a", two), ready("b", one)}, certificate{leaf: two, named: []string{two, one}, since: at, former: []string{one}}},
		{"renewed, the signer is between two writes, the other way round", known, []*corev1.Service{ready("a", one), ready("b", two)}, certificate{leaf: two, named: []string{one, two}, since: at, former: []string{one}}},
		{"still between them", certificate{leaf: two, named: []string{two, one}, since: noon, former: []string{one}}, []*corev1.Service{ready("a", two), ready("b", one)}, certificate{leaf: two, named: []string{two, one}, since: noon, former: []string{one}}},
		{"and done", certificate{leaf: two, named: []string{two, one}, since: noon, former: []string{one}}, []*corev1.Service{ready("a", two), ready("b", two)}, certificate{leaf: two, named: []string{two}, since: noon, former: []string{one}}},
		{"a renewal failed", known, []*corev1.Service{ready("web", "")}, known},
		{"back to one from before", rotated, []*corev1.Service{ready("web", one)}, certificate{leaf: one, named: []string{one}, since: at, former: []string{two}}},

		{"recalled", certificate{}, []*corev1.Service{serves(ready("web", one), one, noon)}, certificate{leaf: one, named: []string{one}, since: noon}},
		{"recalled of another Service", certificate{}, []*corev1.Service{ready("a", one), serves(ready("web", one), one, noon)}, certificate{leaf: one, named: []string{one}, since: noon}},
		{"recalled, the latest", certificate{}, []*corev1.Service{serves(ready("a", two), one, noon.Add(-time.Hour)), serves(ready("b", two), two, noon)}, certificate{leaf: two, named: []string{two}, since: noon}},
		{"recalled, and renewed since", certificate{}, []*corev1.Service{serves(ready("web", two), one, noon)}, rotated},
		{"recalled, and a renewal failed", certificate{}, []*corev1.Service{serves(ready("web", ""), one, noon)}, certificate{leaf: one, named: []string{one}, since: noon}},
		{"memory is better", known, []*corev1.Service{serves(ready("web", one), three, noon.Add(time.Minute))}, known},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.before.follow(tt.services, later)) })
	}
}

// What is said once is said until something changes, whoever leads.
func TestFollowPropertyATimeBelongsToALeaf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, c := noon, certificate{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "later")))
			n := rapid.IntRange(0, 30).Draw(t, "leaf")
			leaf := ""
			if n > 0 {
				leaf = leafNo(n)
			}
			next := ready("web", leaf)
			if c.leaf != "" {
				serves(next, c.leaf, c.since) // as this or another process has written
			}
			before := c
			c = before.follow([]*corev1.Service{next}, now)
			led := certificate{}.follow([]*corev1.Service{next}, now)
			assert.Equal(t, c.leaf, led.leaf)
			assert.Equal(t, c.since, led.since, "a new leader says the same")
			if leaf == "" || leaf == before.leaf {
				assert.Equal(t, before.since, c.since)
				assert.Equal(t, before.leaf, c.leaf)
			} else {
				assert.Equal(t, leaf, c.leaf)
				assert.Equal(t, now.Truncate(time.Second), c.since)
				assert.False(t, before.leaf != "" && !c.knows(before.leaf), "what was is remembered")
			}
			assert.NotContains(t, c.former, c.leaf)
			assert.LessOrEqual(t, len(c.former), maxFormer)
		}
	})
}
