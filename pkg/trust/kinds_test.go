package trust

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	bundles      = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
	errNoMatch   = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}, SearchedVersions: []string{"v1"}}
	errNotServed = apierrors.NewNotFound(bundles, "")
	errForbidden = apierrors.NewForbidden(bundles, "", errors.New("no rights"))
	errAway      = errors.New("connection refused")
)

func TestJudgeProbe(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want KindState
	}{
		{"both answered", nil, KindWatched},
		{"no such kind", errNoMatch, KindAbsent},
		{"disabled since", errNotServed, KindAbsent},
		{"no rights", errForbidden, KindRefused},
		{"nobody", apierrors.NewUnauthorized("who?"), KindRefused},
		{"away", errAway, KindStarting},
		{"starting", apierrors.NewServiceUnavailable("soon"), KindStarting},
		{"overloaded", apierrors.NewTooManyRequests("later", 1), KindStarting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err
			if err != nil {
				err = fmt.Errorf("list ClusterTrustBundle: %w", err)
			}
			state, message := judgeProbe(err)
			assert.Equal(t, tt.want, state)
			assert.Equal(t, err == nil, message == "")
		})
	}
}

// The newest version that is there wins; an older one is tried only where the newer
// one is not, and not where it is forbidden or the API server is away.
func TestFindServed(t *testing.T) {
	tests := []struct {
		name        string
		v1, v1beta1 error
		version     string
		state       KindState
	}{
		{"both", nil, nil, "v1", KindWatched},
		{"v1 alone", nil, errNoMatch, "v1", KindWatched},
		{"v1beta1 alone", errNoMatch, nil, "v1beta1", KindWatched},
		{"none", errNoMatch, errNotServed, "v1beta1", KindAbsent},
		{"v1 forbidden", errForbidden, nil, "v1", KindRefused},
		{"v1beta1 forbidden", errNoMatch, errForbidden, "v1beta1", KindRefused},
		{"away", errAway, nil, "v1", KindStarting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			probe := func(_ context.Context, kind Target) error {
				return map[string]error{"v1": tt.v1, "v1beta1": tt.v1beta1}[kind.Object.GetObjectKind().GroupVersionKind().Version]
			}
			got, state, _ := findServed(t.Context(), clusterTrustBundle(), probe)
			assert.Equal(t, tt.state, state)
			assert.Equal(t, tt.version, got.Object.GetObjectKind().GroupVersionKind().Version)
			assert.Equal(t, "ClusterTrustBundle", got.Kind)
		})
	}
}

// A kind whose targets cannot be seen may have one that does not hold the bundle:
// nobody may conclude that all do. One that does not exist has none.
func TestSummarizeUnseenKinds(t *testing.T) {
	views := []kindView{
		{name: "A", state: KindWatched},
		{name: "B", state: KindStarting, message: "not looked at yet"},
		{name: "C", state: KindRefused, message: "no rights"},
		{name: "D", state: KindAbsent, message: "no such kind"},
	}
	s := summarize(views, Bundle{Hash: "now"}, nil, []seen{seenAt("A", "ns", "x", holds(), record{}), seenAt("C", "", "y", holds(), record{})})
	assert.Equal(t, Status{
		BundleHash: "now", Targets: 4, Holding: 2, Refusing: 1,
		NotHolding: []string{"C (all): Forbidden: no rights", "B (all): Unavailable: not looked at yet"},
	}, s.status)
	assert.Equal(t, map[string]KindState{"A": KindWatched, "B": KindStarting, "C": KindRefused, "D": KindAbsent}, s.kinds)
	assert.Equal(t, map[Reason]int{ReasonForbidden: 1}, s.refusing["C"])
	assert.Equal(t, map[State]int{StateHolds: 1}, s.counts["C"])
}

func TestKindsTellOfChanges(t *testing.T) {
	rung := 0
	k := newKinds(Targets(false), func() { rung++ })
	assert.True(t, starting(k.all()))
	for _, kind := range Targets(false) {
		assert.True(t, k.watched(kind, nil))
	}
	assert.False(t, starting(k.all()))
	assert.Equal(t, len(Kinds()), rung)

	assert.False(t, k.watched(apiService(words{}), nil), "as before")
	assert.Equal(t, len(Kinds()), rung)
	assert.True(t, k.set("APIService", KindRefused, "no rights"))
	assert.False(t, k.set("APIService", KindRefused, "no rights, in other words"), "told already")
	assert.Equal(t, len(Kinds())+2, rung, "the status repeats the words")
	assert.True(t, k.watched(apiService(words{}), nil))
}
