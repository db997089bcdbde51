package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestOpenShiftAnnotationsCountWithTheFlagAlone(t *testing.T) {
	svc := rotatortest.Service("web", "", "app", "web")
	svc.Annotations = map[string]string{api.OpenShiftSecretName: "web-tls"}
	for _, openShift := range []bool{false, true} {
		kept, err := facts.ServiceTransform(openShift, Keep)(svc)
		require.NoError(t, err)
		again, err := facts.ServiceTransform(openShift, Keep)(kept)
		require.NoError(t, err)
		assert.Equal(t, kept, again, "an informer may do it twice")
		secret, asks := api.Wants(kept.(*corev1.Service))
		assert.Equal(t, openShift, asks)
		assert.Equal(t, openShift, secret == "web-tls")
	}
}

func TestKeepRenewAfter(t *testing.T) {
	for _, tt := range []struct {
		name string
		svc  *corev1.Service
		want map[string]string
	}{
		{"asks", rotatortest.Service("web", "web-tls"), map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationRenewAfter: "x"}},
		{"does not ask", rotatortest.Service("web", ""), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				tt.svc.Annotations = map[string]string{}
			}
			tt.svc.Annotations[api.AnnotationRenewAfter], tt.svc.Annotations["other"] = "x", "y"
			tt.svc.Spec.Type = corev1.ServiceTypeExternalName
			kept, err := facts.ServiceTransform(false, Keep)(tt.svc)
			require.NoError(t, err)
			assert.Equal(t, tt.want, kept.(*corev1.Service).Annotations)
			assert.Equal(t, tt.want != nil, kept.(*corev1.Service).Spec.Type != "", "no proxy connects to one of type ExternalName")
		})
	}
}
