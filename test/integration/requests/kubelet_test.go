package requests

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// podSpec is that of a pod on the node whose certificate the signer issues.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: account,
		NodeName:           nodeName,
		Containers:         []corev1.Container{{Name: "app", Image: "registry.example/app"}},
		Volumes:            []corev1.Volume{controlplane.PodCertificateVolume(api.SignerName)},
	}
}

// runningPod makes a pod with label app=APP that runs on the node.
func runningPod(t *testing.T, namespace, app string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: app + "-", Labels: map[string]string{"app": app}},
		Spec:       podSpec(),
	}
	for _, c := range change {
		c(pod)
	}
	pod, err := admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

// podKey is a pod's, and its request in DER.
type podKey struct {
	crypto.Signer
	csr []byte
}

func newPodKey(t *testing.T, algorithm pki.KeyAlgorithm) podKey {
	t.Helper()
	k := signertest.Key(t, algorithm)
	return podKey{k, signertest.CSR(t, k)}
}

// requestOf is what the kubelet asks for the pod.
func requestOf(t *testing.T, pod *corev1.Pod, k podKey) *certificatesv1.PodCertificateRequest {
	t.Helper()
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: "req-"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: api.SignerName, PodName: pod.Name, PodUID: pod.UID, NodeName: nodeName, NodeUID: nodeUID(t),
			ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: accountUID(t, pod),
			StubPKCS10Request: k.csr,
		},
	}
}

func nodeUID(t *testing.T) types.UID {
	t.Helper()
	n, err := admin.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	require.NoError(t, err)
	return n.UID
}

func accountUID(t *testing.T, pod *corev1.Pod) types.UID {
	t.Helper()
	a, err := admin.CoreV1().ServiceAccounts(pod.Namespace).Get(t.Context(), pod.Spec.ServiceAccountName, metav1.GetOptions{})
	require.NoError(t, err)
	return a.UID
}

// isKnown waits until the API server admits the request: it looks for the pod in a cache.
func isKnown(t *testing.T, request *certificatesv1.PodCertificateRequest) {
	t.Helper()
	harness.Eventually(t, func() error {
		_, err := nodeCertificates.PodCertificateRequests(request.Namespace).Create(t.Context(), request, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// askForPod makes a request as the kubelet of the node.
func askForPod(t *testing.T, request *certificatesv1.PodCertificateRequest) *certificatesv1.PodCertificateRequest {
	t.Helper()
	isKnown(t, request)
	request, err := nodeCertificates.PodCertificateRequests(request.Namespace).Create(t.Context(), request, metav1.CreateOptions{})
	require.NoError(t, err)
	return request
}

// podAnswerTo waits for the answer to a request: its one condition.
func podAnswerTo(t *testing.T, request *certificatesv1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, metav1.Condition) {
	t.Helper()
	var answered *certificatesv1.PodCertificateRequest
	harness.Eventually(t, func() (err error) {
		answered, err = certificates.PodCertificateRequests(request.Namespace).Get(t.Context(), request.Name, metav1.GetOptions{})
		if err == nil && len(answered.Status.Conditions) == 0 {
			err = fmt.Errorf("request %s has no answer", request.Name)
		}
		return err
	})
	return answered, answered.Status.Conditions[0]
}

// podIssued waits for the certificate, and checks it as a client would.
func podIssued(t *testing.T, request *certificatesv1.PodCertificateRequest, k podKey) *x509.Certificate {
	t.Helper()
	answered, condition := podAnswerTo(t, request)
	require.Equal(t, certificatesv1.PodCertificateRequestConditionTypeIssued, condition.Type, "%s: %s", condition.Reason, condition.Message)
	chain, err := pki.ParseCertificates([]byte(answered.Status.CertificateChain))
	require.NoError(t, err)
	require.True(t, pki.KeyMatches(chain[0], k.Signer))
	cm, err := admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	roots, err := pki.ParseCertificates([]byte(cm.Data[api.BundleKey]))
	require.NoError(t, err)
	require.NoError(t, pki.VerifyServing(chain[0], chain[1:], roots[0], time.Now()))
	require.Equal(t, "leaf sha256:"+pki.Fingerprint(chain[0]), condition.Message)
	return chain[0]
}

// saidOfPod waits for an event about the pod with the reason.
func saidOfPod(t *testing.T, pod *corev1.Pod, reason string) string {
	t.Helper()
	return harness.Said(t, admin, pod.Namespace, pod.UID, reason)
}
