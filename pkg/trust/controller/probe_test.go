package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

func kindNamed(t *testing.T, name string) target.Kind {
	t.Helper()
	for _, kind := range target.Kinds(true) {
		if kind.Name == name {
			return kind
		}
	}
	require.Fail(t, "no kind "+name)
	return target.Kind{}
}

// starting reports whether the state of some kind is not known yet.
func starting(k *kinds) bool {
	return slices.ContainsFunc(k.all(), func(v kindView) bool { return v.State == trust.KindStarting })
}

var (
	bundles      = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
	errNoMatch   = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}, SearchedVersions: []string{"v1"}}
	errNotServed = apierrors.NewNotFound(bundles, "")
	errForbidden = apierrors.NewForbidden(bundles, "", errors.New("no rights"))
	errAway      = errors.New("connection refused")
)

func TestKindStateOf(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want trust.KindState
	}{
		{"both answered", nil, trust.KindWatched},
		{"no such kind", errNoMatch, trust.KindAbsent},
		{"disabled since", errNotServed, trust.KindAbsent},
		{"no rights", errForbidden, trust.KindRefused},
		{"nobody", apierrors.NewUnauthorized("who?"), trust.KindRefused},
		{"away", errAway, trust.KindStarting},
		{"starting", apierrors.NewServiceUnavailable("soon"), trust.KindStarting},
		{"overloaded", apierrors.NewTooManyRequests("later", 1), trust.KindStarting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err
			if err != nil {
				err = fmt.Errorf("list ClusterTrustBundle: %w", err)
			}
			state, message := kindStateOf(err)
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
		state       trust.KindState
	}{
		{"both", nil, nil, "v1", trust.KindWatched},
		{"v1 alone", nil, errNoMatch, "v1", trust.KindWatched},
		{"v1beta1 alone", errNoMatch, nil, "v1beta1", trust.KindWatched},
		{"none", errNoMatch, errNotServed, "v1beta1", trust.KindAbsent},
		{"v1 forbidden", errForbidden, nil, "v1", trust.KindRefused},
		{"v1beta1 forbidden", errNoMatch, errForbidden, "v1beta1", trust.KindRefused},
		{"away", errAway, nil, "v1", trust.KindStarting},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			probe := func(_ context.Context, kind target.Kind) error {
				return map[string]error{"v1": tt.v1, "v1beta1": tt.v1beta1}[kind.Object.GetObjectKind().GroupVersionKind().Version]
			}
			got, state, _ := findServed(t.Context(), kindNamed(t, "ClusterTrustBundle"), probe)
			assert.Equal(t, tt.state, state)
			assert.Equal(t, tt.version, got.Object.GetObjectKind().GroupVersionKind().Version)
			assert.Equal(t, "ClusterTrustBundle", got.Name)
		})
	}
}

func TestKindsReportChanges(t *testing.T) {
	changes := 0
	k := newKinds(target.Kinds(false), func() { changes++ })
	assert.True(t, starting(k))
	for _, kind := range target.Kinds(false) {
		assert.True(t, k.watched(kind, nil))
	}
	assert.False(t, starting(k))
	assert.Equal(t, len(target.Names()), changes)

	assert.False(t, k.watched(kindNamed(t, "APIService"), nil), "as before")
	assert.Equal(t, len(target.Names()), changes)
	assert.True(t, k.set("APIService", trust.KindRefused, "no rights"))
	assert.False(t, k.set("APIService", trust.KindRefused, "no rights, another message"), "reported already")
	assert.Equal(t, len(target.Names())+2, changes, "the status repeats the message")
	assert.True(t, k.watched(kindNamed(t, "APIService"), nil))
}
