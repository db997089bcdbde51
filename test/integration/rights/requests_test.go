package rights

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// isAskedFor asks a program for its metrics, as somebody who may not read them.
func isAskedFor(t *testing.T, address string) {
	t.Helper()
	stranger, err := plane.ServiceAccountConfig(t.Context(), "default", "default")
	require.NoError(t, err)
	https := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // who answers does not matter
	defer https.CloseIdleConnections()
	harness.Eventually(t, func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+stranger.BearerToken)
		response, err := https.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusForbidden {
			return fmt.Errorf("/metrics: %s", response.Status)
		}
		return nil
	})
}

// csr has a certificate signed for a key that somebody else made, who may serve as the
// Service.
func csr(t *testing.T, namespace string) {
	t.Helper()
	der := signertest.CSR(t, signertest.Key(t, pki.ECDSAP256), func(r *x509.CertificateRequest) { r.DNSNames = []string{"web." + namespace + ".svc"} })
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "of-a-host"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: api.SignerName, Request: issue.EncodeCSR(der),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	create(t, request)
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(request), request)
		if err == nil && len(request.Status.Certificate) == 0 {
			err = fmt.Errorf("request %s: %v", request.Name, request.Status.Conditions)
		}
		return err
	})
}

// podKey has a certificate signed for a key of a pod on a node, as its kubelet would ask.
func podKey(t *testing.T, namespace string) {
	t.Helper()
	of := template()
	pod := &corev1.Pod{ObjectMeta: of.ObjectMeta, Spec: of.Spec}
	pod.Namespace, pod.Name, pod.Spec.NodeName = namespace, "with-a-key", "node"
	create(t, pod)
	var account corev1.ServiceAccount
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pod.Spec.ServiceAccountName}, &account))
	request := &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-kubelet"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: api.SignerName, PodName: pod.Name, PodUID: pod.UID, NodeName: "node", NodeUID: "node",
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID, StubPKCS10Request: signertest.CSR(t, signertest.Key(t, pki.ECDSAP256)),
		},
	}
	certificates, err := controlplane.CertificatesOf(t.Context(), plane.AdminConfig())
	require.NoError(t, err)
	requests := certificates.PodCertificateRequests(namespace)
	request, err = requests.Create(t.Context(), request, metav1.CreateOptions{})
	require.NoError(t, err)
	harness.Eventually(t, func() (err error) {
		request, err = requests.Get(t.Context(), request.Name, metav1.GetOptions{})
		if err == nil && request.Status.CertificateChain == "" {
			err = fmt.Errorf("request %s/%s: %v", request.Namespace, request.Name, request.Status.Conditions)
		}
		return err
	})
}
