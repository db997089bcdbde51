package controller

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/test/signertest"
)

// An informer may strip what was stripped already.
func TestServicesAreTranslatedOnce(t *testing.T) {
	svc := service("web", api.AnnotationSecretName, "-", api.OpenShiftSecretNameAlpha, "web-tls", api.OpenShiftError, "no", "kubectl.kubernetes.io/last-applied-configuration", "{}")
	kept, err := facts.ServiceTransform(true, signer.Keep)(svc)
	require.NoError(t, err)
	again, err := facts.ServiceTransform(true, signer.Keep)(kept)
	require.NoError(t, err)
	assert.Equal(t, kept, again)
	assert.Equal(t, api.OpenShiftSecretNameAlpha, api.OpenShiftAnnotation(kept.(*corev1.Service)))
	assert.Equal(t, "no", kept.(*corev1.Service).Annotations[api.OpenShiftError])
	assert.NotContains(t, kept.(*corev1.Service).Annotations, "kubectl.kubernetes.io/last-applied-configuration")
}

// Without the flag OpenShift's annotations mean nothing: none of them is kept of
// any Service.
func TestWithoutTheFlagNoOpenShiftAnnotationIsKept(t *testing.T) {
	keys := []string{
		api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha, api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha,
		api.OpenShiftError, api.OpenShiftErrorAlpha, api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha,
	}
	rapid.Check(t, func(t *rapid.T) {
		svc := signertest.DrawService(t, "web")
		stripped := api.StripService(svc, signer.Keep(svc))
		maps.Copy(svc.Annotations, rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"web-tls", "other-tls", "", "A_B", "10"})).Draw(t, "annotations"))
		kept, err := facts.ServiceTransform(false, signer.Keep)(svc)
		require.NoError(t, err)
		require.Equal(t, stripped, kept)
	})
}

// What the cache keeps of a Service is all that decides what it asks for.
func TestAllThatIsAskedForIsKept(t *testing.T) {
	limits := api.DefaultLimits()
	limits.PermitClusterIPs = true
	rapid.Check(t, func(t *rapid.T) {
		svc := signertest.DrawService(t, "web")
		if ips := signertest.OneOf(t, "cluster IPs", "-", "true", "false", "yes"); ips != "-" {
			svc.Annotations[api.AnnotationClusterIPs] = ips
		}
		want, wantErr := api.Parse(svc, limits)
		got, err := api.Parse(api.StripService(svc, signer.Keep(svc)), limits)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	})
}
