package requests

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func needsIdentities(t *testing.T) {
	t.Helper()
	needsPodCertificates(t)
	harness.Needs(t, plane.AdminConfig(), controlplane.ClusterTrustBundles)
}

// identityOf waits for the answer to a request for an identity, and returns the certificates.
func identityOf(t *testing.T, request *certificatesv1.PodCertificateRequest) []*x509.Certificate {
	t.Helper()
	answered, condition := podAnswerTo(t, request)
	require.Equal(t, certificatesv1.PodCertificateRequestConditionTypeIssued, condition.Type, "%s: %s", condition.Reason, condition.Message)
	chain, err := pki.ParseCertificates([]byte(answered.Status.CertificateChain))
	require.NoError(t, err)
	return chain
}

// clientRoots returns what servers get to verify clients.
func clientRoots(t *testing.T) []*x509.Certificate {
	t.Helper()
	var roots []*x509.Certificate
	harness.Eventually(t, func() error {
		bundle, err := certificates.ClusterTrustBundles().Get(t.Context(), api.ClientBundleName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		roots, err = pki.ParseCertificates([]byte(bundle.Spec.TrustBundle))
		return err
	})
	return roots
}

// withIdentity gives a pod the volume for which its kubelet requests an identity.
func withIdentity(pod *corev1.Pod) {
	volume := controlplane.PodCertificateVolume(api.ClientSignerName)
	volume.Name = "identity"
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
}

func requestOfClient(t *testing.T, pod *corev1.Pod, k podKey) *certificatesv1.PodCertificateRequest {
	t.Helper()
	request := requestOf(t, pod, k)
	request.Spec.SignerName = api.ClientSignerName
	return request
}

// A pod gets an identity, which is its ServiceAccount, by a CA of its own: it serves nothing, and what
// serves shows no identity.
func TestAPodGetsAnIdentity(t *testing.T) {
	needsIdentities(t)
	startSigner(t, "--trust-domain=example.com")
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	pod, k := runningPod(t, ns, "web", withIdentity), newPodKey(t, pki.ECDSAP256)
	chain := identityOf(t, askForPod(t, requestOfClient(t, pod, k)))
	id := pki.SPIFFEID{TrustDomain: "example.com", Namespace: ns, ServiceAccount: pod.Spec.ServiceAccountName}
	require.NoError(t, pki.CheckIdentity(chain[0], pki.ECDSAP256, id))
	require.True(t, pki.KeyMatches(chain[0], k.Signer))
	assert.Equal(t, 24*time.Hour, pki.Lifetime(chain[0]))
	roots := clientRoots(t)
	require.Len(t, roots, 1)
	require.NoError(t, pki.VerifyClient(chain[0], chain[1:], roots[0], time.Now()))
	require.Error(t, pki.VerifyServing(chain[0], chain[1:], roots[0], time.Now()))

	other := newPodKey(t, pki.ECDSAP256)
	serving := podIssued(t, askForPod(t, requestOf(t, pod, other)), other)
	assert.Empty(t, serving.URIs)
	assert.Error(t, pki.VerifyClient(serving, nil, roots[0], time.Now()))
}

// A namespace without the label gets no identities; its pods wait.
func TestNoIdentityWithoutTheLabel(t *testing.T) {
	needsIdentities(t)
	startSigner(t, "--trust-domain=example.com")
	ns := newNamespace(t, false)
	pod, k := runningPod(t, ns, "web", withIdentity), newPodKey(t, pki.ECDSAP256)
	request := askForPod(t, requestOfClient(t, pod, k))
	assert.Contains(t, saidOfPod(t, pod, api.ReasonNotOptedIn), "does not have label servingcert.dev/inject=enabled")
	optIn(t, ns)
	identityOf(t, request)
}

// Another trust domain changes nothing, and the roots come back if somebody takes them away.
func TestTheTrustDomainAndItsRootsStay(t *testing.T) {
	needsIdentities(t)
	first := startSigner(t, "--trust-domain=example.com")
	roots := clientRoots(t)
	require.NoError(t, first.Stop())
	startSigner(t, "--trust-domain=other.com")
	ns := newNamespace(t, true)
	pod, k := runningPod(t, ns, "web", withIdentity), newPodKey(t, pki.ECDSAP256)
	chain := identityOf(t, askForPod(t, requestOfClient(t, pod, k)))
	id, err := pki.IdentityOf(chain[0])
	require.NoError(t, err)
	assert.Equal(t, "example.com", id.TrustDomain)
	harness.Eventually(t, func() error {
		cm, err := admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.ClientCAStatusName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if warnings := api.ParseCAStatus(cm.Data).Warnings; len(warnings) != 1 || warnings[0].Reason != api.CAConstraintsChanged {
			return fmt.Errorf("warnings: %v", warnings)
		}
		return nil
	})
	require.NoError(t, certificates.ClusterTrustBundles().Delete(t.Context(), api.ClientBundleName, metav1.DeleteOptions{}))
	assert.Equal(t, roots, clientRoots(t))
}
