package trust

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

func seenAt(kind, namespace, name string, held Judgement, last record) seen {
	return seen{target: target{kind, types.NamespacedName{Namespace: namespace, Name: name}}, held: held, record: last}
}

func watched(names ...string) []kindView {
	var views []kindView
	for _, name := range names {
		views = append(views, kindView{name: name, state: KindWatched})
	}
	return views
}

func TestSummarize(t *testing.T) {
	forbidden := Judgement{StateRefuses, ReasonForbidden, "may not\n  write"}
	targets := []seen{
		seenAt("A", "ns1", "x", holds(), record{}),
		seenAt("A", "ns2", "x", differs("no key"), record{}),
		seenAt("A", "ns3", "x", differs("no key"), record{Judgement: forbidden, hash: "now"}),
		seenAt("A", "ns4", "x", differs("no key"), record{Judgement: forbidden, hash: "before"}),
		seenAt("A", "ns5", "x", holds(), record{Judgement: forbidden, hash: "now"}),
		seenAt("B", "", "y", Judgement{StateUnsuitable, ReasonNoField, "no field"}, record{}),
		seenAt("B", "", "z", Judgement{StateRefuses, ReasonImmutable, "immutable"}, record{}),
	}
	s := summarize(watched("A", "B", "C"), Bundle{Hash: "now"}, nil, targets)
	assert.Equal(t, Status{
		BundleHash: "now", Targets: 6, Holding: 2, Refusing: 2,
		NotHolding: []string{
			"A ns3/x: Forbidden: may not write",
			"B z: Immutable: immutable",
			"A ns2/x: Differs: no key",
			"A ns4/x: Differs: no key",
		},
	}, s.status)
	assert.Equal(t, map[string]map[State]int{
		"A": {StateHolds: 2, StatePending: 2, StateRefuses: 1},
		"B": {StateUnsuitable: 1, StateRefuses: 1},
		"C": {},
	}, s.counts)
	assert.Equal(t, map[string]string{
		"bundle-hash": "now", "targets": "6", "holding": "2", "pending": "2", "refusing": "2", "problem": "",
		"not-holding": strings.Join(s.status.NotHolding, "\n"),
	}, s.status.Data())
}

func TestSummarizeWithoutSource(t *testing.T) {
	s := summarize(watched("A"), Bundle{}, errors.New("source is gone"), []seen{seenAt("A", "ns", "x", Judgement{}, record{Judgement: holds(), hash: "before"})})
	assert.Equal(t, Status{Targets: 1, Problem: "source is gone", NotHolding: []string{"A ns/x: NoSource: no bundle to compare with"}}, s.status)
}

// A ConfigMap holds 1 MiB: a status of everything that can be wrong with
// thousands of targets stays far below.
func TestStatusIsBounded(t *testing.T) {
	var targets []seen
	long := strings.Repeat("ä", 5000)
	for i := range 5000 {
		targets = append(targets, seenAt("MutatingWebhookConfiguration", strings.Repeat("n", 63), fmt.Sprintf("%0253d", i), Judgement{StateRefuses, ReasonInvalid, long}, record{}))
	}
	size := 0
	for k, v := range summarize(nil, Bundle{}, errors.New("x"), nil).status.Data() {
		size += len(k) + len(v)
	}
	s := summarize(watched("MutatingWebhookConfiguration"), Bundle{Hash: "h"}, nil, targets)
	for k, v := range s.status.Data() {
		size += len(k) + len(v)
	}
	assert.Less(t, size, 64<<10)
	assert.Len(t, s.status.NotHolding, MaxListed+1)
	assert.Equal(t, "and 4950 more", s.status.NotHolding[MaxListed])
}

func TestSameData(t *testing.T) {
	data := Status{BundleHash: "h", Targets: 1, Holding: 1}.Data()
	with := func(key, value string) map[string]string {
		changed := Status{BundleHash: "h", Targets: 1, Holding: 1}.Data()
		changed[key] = value
		return changed
	}
	assert.True(t, sameData(data, data))
	assert.True(t, sameData(with("theirs", "x"), data))
	assert.False(t, sameData(with(api.TrustHolding, "0"), data))
	assert.False(t, sameData(with(api.TrustProblem, "x"), data))
	assert.False(t, sameData(nil, data))
}
