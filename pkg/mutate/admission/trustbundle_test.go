package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/api"
)

// A webhook whose pods get the bundle from the ClusterTrustBundle is ready once that is
// there, and stays so.
func TestReadyOnceTheClusterTrustBundleIsThere(t *testing.T) {
	var none *trustBundle
	require.NoError(t, none.ready(), "pods get it from a ConfigMap")

	answers := []error{
		errors.New("away"),
		apierrors.NewNotFound(schema.GroupResource{Resource: "clustertrustbundles"}, api.TrustBundleName),
		nil,
	}
	b := &trustBundle{log: logr.Discard()}
	b.get = func(context.Context) error {
		require.EqualError(t, b.ready(), "ClusterTrustBundle servingcert.dev:serving:ca does not exist: the rotator writes it if its --targets include ClusterTrustBundle")
		err := answers[0]
		answers = answers[1:]
		return err
	}
	synctest.Test(t, func(t *testing.T) { require.NoError(t, b.await(t.Context())) })
	require.NoError(t, b.ready())
	assert.Empty(t, answers)
}

// It ends with the process.
func TestTheClusterTrustBundleIsLookedForUntilTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := &trustBundle{log: logr.Discard(), get: func(context.Context) error { stop(); return errors.New("away") }}
	require.NoError(t, b.await(ctx))
	require.Error(t, b.ready())
}
