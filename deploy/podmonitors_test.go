package deploy

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/servingcert/servingcert/pkg/api"
)

// podMonitor is what of a PodMonitor is tested.
type podMonitor struct {
	Spec struct {
		Selector            struct{ MatchLabels map[string]string }
		PodMetricsEndpoints []struct {
			Port, Scheme string
			HonorLabels  bool
			TLSConfig    struct {
				ServerName string
				CA         struct{ ConfigMap corev1.ConfigMapKeySelector }
			}
			Authorization struct{ Credentials corev1.SecretKeySelector }
		}
	}
}

// Each Deployment has a PodMonitor that finds its pods and its port, and verifies it by a
// name that the certificate in its volume has.
func TestPodMonitors(t *testing.T) {
	installed, err := Objects()
	require.NoError(t, err)
	data, err := os.ReadFile("podmonitors.yaml")
	require.NoError(t, err)
	beside, err := Decode(data)
	require.NoError(t, err)
	secret := corev1.Secret{}
	require.NoError(t, convert(find(t, beside, "Secret", "servingcert-metrics-reader"), &secret))
	assert.Equal(t, corev1.SecretTypeServiceAccountToken, secret.Type)
	find(t, beside, "ServiceAccount", secret.Annotations[corev1.ServiceAccountNameKey])

	for _, name := range []string{"servingcert-signer", "servingcert-trust", "servingcert-rotator", "servingcert-webhook"} {
		monitor, service, deployment := podMonitor{}, corev1.Service{}, appsv1.Deployment{}
		require.NoError(t, convert(find(t, beside, "PodMonitor", name), &monitor))
		require.NoError(t, convert(find(t, installed, "Service", name), &service))
		require.NoError(t, convert(find(t, installed, "Deployment", name), &deployment))
		template := deployment.Spec.Template

		assert.Equal(t, template.Labels, monitor.Spec.Selector.MatchLabels)
		assert.Equal(t, template.Labels, service.Spec.Selector)
		assert.Equal(t, service.Annotations[api.AnnotationSecretName], template.Spec.Volumes[0].Secret.SecretName)
		require.Len(t, monitor.Spec.PodMetricsEndpoints, 1)
		endpoint := monitor.Spec.PodMetricsEndpoints[0]
		assert.Equal(t, "https", endpoint.Scheme)
		assert.True(t, endpoint.HonorLabels)
		assert.Equal(t, name+"."+api.DefaultNamespace+".svc", endpoint.TLSConfig.ServerName)
		assert.Equal(t, api.BundleName, endpoint.TLSConfig.CA.ConfigMap.Name)
		assert.Equal(t, secret.Name, endpoint.Authorization.Credentials.Name)
		isMetrics := func(p corev1.ContainerPort) bool { return p.Name == endpoint.Port && p.ContainerPort == 8443 }
		assert.True(t, slices.ContainsFunc(template.Spec.Containers[0].Ports, isMetrics), "%s declares the port", name)
		isTarget := func(p corev1.ServicePort) bool { return p.TargetPort.String() == endpoint.Port }
		assert.True(t, slices.ContainsFunc(service.Spec.Ports, isTarget), "the Service of %s has the port", name)
	}
}

func convert(obj *unstructured.Unstructured, into any) error {
	data, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	require.GreaterOrEqual(t, i, 0, "there is no %s %s", kind, name)
	return objects[i]
}
