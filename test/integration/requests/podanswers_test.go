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

// The kubelet gets a certificate for the names of the Services that select its pod, for as long as
// the signer allows.
func TestAPodGetsTheNamesOfItsServices(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t, "--pod-max-duration=2h")
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	newService(t, ns, "other")
	newService(t, ns, "plain", func(svc *corev1.Service) { svc.Annotations = nil })
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP384)
	leaf := podIssued(t, askForPod(t, requestOf(t, pod, k)), k)
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, leaf.DNSNames)
	assert.Equal(t, 2*time.Hour, pki.Lifetime(leaf))

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

// What can never become right is denied, with the reason.
func TestWhatIsDenied(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, false)
	newService(t, ns, "web")
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	_, condition := podAnswerTo(t, askForPod(t, requestOf(t, pod, k)))
	assert.Equal(t, "Denied", condition.Type)
	assert.Equal(t, "NamespaceNotOptedIn", condition.Reason)
}
