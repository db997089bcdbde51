package cluster

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// only is a cluster whose user may read the given objects, by path, and nothing else.
func only(t *testing.T, answers map[string]any) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return &Cluster{Client: client}
}

// TestAForbiddenBundle does not end verify, nor does a forbidden Secret.
func TestAForbiddenBundle(t *testing.T) {
	web := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
	c := only(t, map[string]any{"/api/v1/namespaces/shop/services/web": web})
	s, err := c.Certificate(t.Context(), "shop", "web", "servingcert-system")
	require.NoError(t, err)
	assert.Error(t, s.BundleErr)
	assert.Error(t, s.SecretErr)

	roots, err := c.rootsOf(t.Context(), []status.PodPort{{Namespace: "shop"}})
	require.NoError(t, err)
	assert.True(t, roots["shop"].Unread)
}

// TestForbiddenSecrets are not the same as those that have no CA.
func TestForbiddenSecrets(t *testing.T) {
	mounts := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Volumes: []corev1.Volume{mounts("forbidden"), mounts("readable")}, Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "forbidden", MountPath: "/a"}, {Name: "readable", MountPath: "/b"}}}}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	web := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 443}}}}
	ports, _ := status.PodPorts([]corev1.Service{web}, []corev1.Pod{pod}, "cluster.local")
	require.Len(t, ports, 1)
	require.Equal(t, []string{"forbidden", "readable"}, ports[0].Secrets())
	c := only(t, map[string]any{"/api/v1/namespaces/shop/secrets/readable": corev1.Secret{}})
	found, err := c.mountedSecrets(t.Context(), ports)
	require.NoError(t, err)
	assert.Equal(t, map[string]status.MountedSecret{"forbidden": {Forbidden: true}, "readable": {Read: true}}, found["shop"])
}

// TestRootsThatClientsGet: a ca.crt that cannot be read is not the same as none.
func TestRootsThatClientsGet(t *testing.T) {
	assert.Nil(t, rootsIn(nil))
	pool := rootsIn([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	require.NotNil(t, pool)
	assert.True(t, pool.Equal(x509.NewCertPool()))
}

// TestRenewedBy: cert-manager's command, if its annotation names a Certificate, and the name is safe in a shell.
func TestRenewedBy(t *testing.T) {
	secret := func(certificate string) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationCertificateName: certificate}}}
	}
	c := only(t, map[string]any{
		"/api/v1/namespaces/shop/secrets/a": secret("web"), "/api/v1/namespaces/shop/secrets/b": secret("web;id"), "/api/v1/namespaces/shop/secrets/c": corev1.Secret{},
	})
	for name, want := range map[string]string{"a": ": cmctl renew -n shop web", "b": "", "c": "", "forbidden": ""} {
		assert.Equal(t, want, c.RenewedBy(t.Context(), status.Service{Namespace: "shop", Secret: name, External: true}), name)
	}
}
