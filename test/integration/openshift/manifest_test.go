package openshift

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// eventually is harness.Await for a test, which shows the logs if it fails.
func eventually(t *testing.T, what func() error) {
	t.Helper()
	if err := harness.Await(t.Context(), what); err != nil {
		for name, p := range running {
			t.Logf("log of the %s:\n%s", name, p.Log.String())
		}
		require.NoError(t, err)
	}
}

// apply applies a manifest of testdata, into the namespace where it names none.
func apply(t *testing.T, file, namespace string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	for _, o := range objects {
		if namespace != "" {
			o.SetNamespace(namespace)
		}
	}
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, "test", objects))
}

func get[T client.Object](t *testing.T, into T, namespace, name string) T {
	t.Helper()
	eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	})
	return into
}

// podsOf waits until the namespace has so many pods.
func podsOf(t *testing.T, namespace, component string, n int) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	eventually(t, func() error {
		if err := admin.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d pods of %s, want %d", len(list.Items), component, n)
		}
		return nil
	})
	return list.Items
}

// A manifest made for OpenShift: the Service has its certificate, the pods their
// Secret under the name that they mount, and a client that reads the ConfigMap
// verifies the server by the Service's name.
func TestAManifestMadeForOpenShift(t *testing.T) {
	const ns, name = "openshift-kube-scheduler-operator", "kube-scheduler-operator-serving-cert"
	apply(t, "operator.yaml", "")
	secret := get(t, &corev1.Secret{}, ns, name)
	service := get(t, &corev1.Service{}, ns, "metrics")

	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	ends := certs[0].NotAfter.Format(time.RFC3339)
	assert.Equal(t, map[string]string{
		api.OpenShiftServiceName: "metrics", api.OpenShiftServiceUID: string(service.UID),
		api.OpenShiftExpiry: ends, api.OpenShiftExpiryAlpha: ends, api.AnnotationIssuedLeaf: pki.Fingerprint(certs[0]),
	}, secret.Annotations)
	assert.Equal(t, corev1.SecretTypeTLS, secret.Type)
	assert.Len(t, secret.Data, 2)
	assert.ElementsMatch(t, []string{"metrics." + ns + ".svc", "metrics." + ns + ".svc.cluster.local"}, certs[0].DNSNames)
	require.Len(t, secret.OwnerReferences, 1)
	assert.Equal(t, service.UID, secret.OwnerReferences[0].UID)

	eventually(t, func() error {
		service := get(t, &corev1.Service{}, ns, "metrics")
		if by := service.Annotations[api.OpenShiftSignedBy]; by != certs[0].Issuer.CommonName {
			return fmt.Errorf("signed by %q", by)
		}
		return nil
	})

	pod := podsOf(t, ns, "operator", 1)[0]
	assert.Equal(t, name, pod.Spec.Volumes[0].Secret.SecretName)
	assert.Empty(t, pod.Labels[api.LabelInjected], "the namespace is not labelled: pods are as they were written")
	assert.Equal(t, []string{"--config=/var/run/configmaps/config/config.yaml", "-v=2"}, pod.Spec.Containers[0].Args)

	var bundle string
	eventually(t, func() error {
		cm := get(t, &corev1.ConfigMap{}, ns, "metrics-ca")
		if bundle = cm.Data[api.OpenShiftBundleKey]; bundle == "" {
			return errors.New("no bundle in the ConfigMap")
		}
		return nil
	})
	for _, host := range []string{"metrics." + ns + ".svc", "metrics." + ns + ".svc.cluster.local"} {
		require.NoError(t, handshake(t, secret, bundle, host))
	}
	require.Error(t, handshake(t, secret, bundle, "metrics."+ns), "no name that is not the Service's own")
}

// handshake lets a server that is given the Secret's files meet a client that
// trusts the bundle.
func handshake(t *testing.T, secret *corev1.Secret, bundle, host string) error {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(bundle)))
	listener, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	}()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp4", listener.Addr().String())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// What service-ca says of a failure is said, with the rights and policies of an
// installation, and taken back.
func TestErrorsAreWrittenAndCleared(t *testing.T) {
	const ns = "errors"
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "metrics-tls"}, StringData: map[string]string{"mine": "yes"}}
	require.NoError(t, admin.Create(t.Context(), taken))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "metrics", Annotations: map[string]string{api.OpenShiftSecretNameAlpha: "metrics-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	require.NoError(t, admin.Create(t.Context(), service))
	eventually(t, func() error {
		got := get(t, &corev1.Service{}, ns, "metrics").Annotations
		if got[api.OpenShiftError] == "" || got[api.OpenShiftErrorAlpha] != got[api.OpenShiftError] || got[api.OpenShiftErrorNum] != "1" || got[api.OpenShiftErrorNumAlpha] != "1" {
			return fmt.Errorf("annotations are %q", got)
		}
		return nil
	})
	require.NoError(t, admin.Delete(t.Context(), taken))
	eventually(t, func() error {
		got := get(t, &corev1.Service{}, ns, "metrics").Annotations
		if _, failing := got[api.OpenShiftError]; failing || got[api.OpenShiftErrorNum] != "" || got[api.OpenShiftSignedByAlpha] == "" {
			return fmt.Errorf("annotations are %q", got)
		}
		return nil
	})
	assert.Equal(t, "metrics", get(t, &corev1.Secret{}, ns, "metrics-tls").Annotations[api.OpenShiftServiceNameAlpha])
}

func restart(t *testing.T, namespace, name string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)},
	}}}})
	require.NoError(t, err)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, admin.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, patch)))
}

const refusal = "OpenShift's service-ca runs in this cluster (Deployment openshift-service-ca/service-ca)"

// serviceCARuns creates the Deployment of service-ca for the time of a test.
func serviceCARuns(t *testing.T) {
	t.Helper()
	err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.OpenShiftNamespace}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	one := int32(1)
	labels := map[string]string{"app": "service-ca"}
	runs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.OpenShiftNamespace, Name: api.OpenShiftDeployment},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
		}},
	}
	require.NoError(t, admin.Create(t.Context(), runs))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), runs)) })
}

// Both would write the same Secrets and bundles: none of the programs starts
// where service-ca runs.
func TestNoneStartsBesideServiceCA(t *testing.T) {
	serviceCARuns(t)
	for _, name := range programs {
		p, err := program(t.Context(), name)
		require.NoError(t, err)
		log, err := exec.Command(p.Path, append(p.Args, "--health-addr=0")...).CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s", log)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Contains(t, string(log), refusal, name)
	}
}
