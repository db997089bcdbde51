package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestOpenShiftAnnotationsCountWithTheFlagAlone(t *testing.T) {
	svc := rotatortest.Service("web", "", "app", "web")
	svc.Annotations = map[string]string{api.OpenShiftSecretName: "web-tls"}
	for _, openShift := range []bool{false, true} {
		kept, err := ServiceTransform(openShift)(svc)
		require.NoError(t, err)
		again, err := ServiceTransform(openShift)(kept)
		require.NoError(t, err)
		assert.Equal(t, kept, again, "an informer may do it twice")
		secret, asks := api.Wants(kept.(*corev1.Service))
		assert.Equal(t, openShift, asks)
		assert.Equal(t, openShift, secret == "web-tls")
	}
}
