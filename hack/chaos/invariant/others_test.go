package invariant

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestForeign(t *testing.T) {
	before := map[string]Version{"Secret a/x": {"1", "10"}, "Secret b/x": {"2", "11"}, "Secret c/x": {"3", "12"}, "Secret d/x": {"4", "13"}}
	after := map[string]Version{"Secret a/x": {"1", "10"}, "Secret b/x": {"9", "11"}, "Secret c/x": {"3", "20"}, "Secret e/x": {"5", "14"}}
	assert.Empty(t, Foreign(before, before))
	assert.Equal(t, []string{"Secret b/x was replaced", "Secret c/x was written: version 20, was 12", "Secret d/x is gone"}, Foreign(before, after))
}

func TestLeaks(t *testing.T) {
	before := map[string]Usage{"signer": {100, 40 << 20}}
	assert.Empty(t, Leaks(before, map[string]Usage{"signer": {155, 92 << 20}}))
	assert.Equal(t, []string{"signer has 156 goroutines, had 100: at most 155"}, Leaks(before, map[string]Usage{"signer": {156, 1}}))
	assert.Equal(t, []string{"signer has 93 MiB resident, had 40: at most 92"}, Leaks(before, map[string]Usage{"signer": {1, 93 << 20}}))
	assert.Equal(t, Usage{3, 5}, Usage{3, 4}.Max(Usage{2, 5}))
}

func TestAdmissions(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		err      error
		injected bool
		want     Outcome
	}{
		{nil, true, Admitted},
		{nil, false, Bare},
		{errors.New("connection refused"), false, Away},
		{apierrors.NewTimeoutError("etcd", 1), false, Away},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "pods.servingcert.dev": EOF`)), false, Refused},
		{apierrors.NewForbidden(pods, "x", errors.New(`admission webhook "x" denied the request: no`)), false, Refused},
	} {
		assert.Equal(t, tc.want, Classify(tc.err, tc.injected), "%v", tc.err)
	}
	var a Admissions
	for _, o := range []Outcome{Admitted, Admitted, Refused, Away} {
		a.Add(o)
	}
	assert.Equal(t, Admissions{Admitted: 2, Refused: 1, Away: 1}, a)
	assert.Empty(t, a.Check(true))
	assert.Equal(t, []string{"1 attempts to create a pod were refused"}, a.Check(false))
	a.Add(Bare)
	assert.Equal(t, []string{"1 pods were admitted without a certificate"}, a.Check(true))
	assert.Equal(t, []string{"2 pods were never admitted"}, Admissions{Admitted: 1, Lost: 2}.Check(true))
	assert.Equal(t, []string{"no pod was admitted"}, Admissions{}.Check(true))
}
