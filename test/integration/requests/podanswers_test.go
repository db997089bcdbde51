package requests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The kubelet gets a certificate for the names of the Services that select its pod.
func TestAPodGetsTheNamesOfItsServices(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	newService(t, ns, "other")
	newService(t, ns, "plain", func(svc *corev1.Service) { svc.Annotations = nil })
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP384)
	leaf := podIssued(t, askForPod(t, requestOf(t, pod, k)), k)
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, leaf.DNSNames)
	assert.Equal(t, 24*time.Hour, pki.Lifetime(leaf))

	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := api.Condition(svc, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue || !api.HasPodKeys(svc) {
			return fmt.Errorf("condition Ready is %v", ready)
		}
		return nil
	})
	secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, secrets.Items)
}

// A StatefulSet's pod has a name of its own below its headless Service, and no other
// pod's.
func TestAPodOfAHeadlessServiceGetsItsOwnName(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "db", func(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone })
	pod, k := runningPod(t, ns, "db", func(p *corev1.Pod) {
		p.GenerateName, p.Name = "", "db-0"
		p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db"
	}), newPodKey(t, pki.ECDSAP256)
	leaf := podIssued(t, askForPod(t, requestOf(t, pod, k)), k)
	below := "db." + ns + ".svc"
	assert.ElementsMatch(t, []string{below, below + ".cluster.local", "db-0." + below, "db-0." + below + ".cluster.local"}, leaf.DNSNames)
}

// The lifetime is the shortest of what the pod and the signer allow.
func TestTheLifetimeIsTheShorter(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t, "--pod-max-duration=2h")
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	for max, want := range map[int32]time.Duration{3600: time.Hour, 86400: 2 * time.Hour} {
		pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.Ed25519)
		request := requestOf(t, pod, k)
		request.Spec.MaxExpirationSeconds = &max
		assert.Equal(t, want, pki.Lifetime(podIssued(t, askForPod(t, request), k)))
	}
}

// What can never become right is denied, with the reason.
func TestWhatIsDenied(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	t.Run("a namespace that was never opted in", func(t *testing.T) {
		ns := newNamespace(t, false)
		newService(t, ns, "web")
		pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
		_, condition := podAnswerTo(t, askForPod(t, requestOf(t, pod, k)))
		assert.Equal(t, "Denied", condition.Type)
		assert.Equal(t, "NamespaceNotOptedIn", condition.Reason)
	})
	t.Run("options that nobody knows", func(t *testing.T) {
		ns := newNamespace(t, true)
		newService(t, ns, "web")
		pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
		request := requestOf(t, pod, k)
		request.Spec.UnverifiedUserAnnotations = map[string]string{"servingcert.dev/names": "other.shop.svc"}
		_, condition := podAnswerTo(t, askForPod(t, request))
		assert.Equal(t, "Denied", condition.Type)
		assert.Equal(t, "InvalidUnverifiedUserAnnotations", condition.Reason)
	})
}
