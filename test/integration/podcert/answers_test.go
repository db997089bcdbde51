package podcert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The kubelet gets a certificate for the names of the Services that select its pod.
func TestAPodGetsTheNamesOfItsServices(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	newService(t, ns, "other", podKeys())
	newService(t, ns, "plain", nil)
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP384)
	leaf := issued(t, ask(t, requestOf(t, pod, k)), k)
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
	newService(t, ns, "db", podKeys(), func(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone })
	pod, k := newPod(t, ns, "db", func(p *corev1.Pod) {
		p.GenerateName, p.Name = "", "db-0"
		p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db"
	}), newKey(t, pki.ECDSAP256)
	leaf := issued(t, ask(t, requestOf(t, pod, k)), k)
	below := "db." + ns + ".svc"
	assert.ElementsMatch(t, []string{below, below + ".cluster.local", "db-0." + below, "db-0." + below + ".cluster.local"}, leaf.DNSNames)
}

// What may become right waits, and is answered once it is.
func TestARequestWaitsForItsService(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	request := ask(t, requestOf(t, pod, k))
	assert.Equal(t, "no Service that asks for a certificate selects the pod", saidOf(t, pod, "NoService"))

	newService(t, ns, "web", map[string]string{api.AnnotationKeySource: "pod", api.AnnotationExtraDNSNames: "www.example.com"})
	assert.Contains(t, saidOf(t, pod, "InvalidAnnotation"), `Service "web": servingcert.dev/extra-dns-names: "www.example.com": not permitted`)

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationExtraDNSNames)
	_, err := admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	issued(t, request, k)
}

// The lifetime is the shortest of what the pod and the signer allow.
func TestTheLifetimeIsTheShorter(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t, "--pod-max-duration=2h")
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	for max, want := range map[int32]time.Duration{3600: time.Hour, 86400: 2 * time.Hour} {
		pod, k := newPod(t, ns, "web"), newKey(t, pki.Ed25519)
		request := requestOf(t, pod, k)
		request.Spec.MaxExpirationSeconds = &max
		assert.Equal(t, want, pki.Lifetime(issued(t, ask(t, request), k)))
	}
}

// What can never become right is denied, with the reason.
func TestWhatIsDenied(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	t.Run("a namespace that was never opted in", func(t *testing.T) {
		ns := newNamespace(t, false)
		newService(t, ns, "web", podKeys())
		pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
		_, condition := answerTo(t, ask(t, requestOf(t, pod, k)))
		assert.Equal(t, "Denied", condition.Type)
		assert.Equal(t, "NamespaceNotOptedIn", condition.Reason)
	})
	t.Run("options that nobody knows", func(t *testing.T) {
		ns := newNamespace(t, true)
		newService(t, ns, "web", podKeys())
		pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
		request := requestOf(t, pod, k)
		request.Spec.UnverifiedUserAnnotations = map[string]string{"servingcert.dev/names": "other.shop.svc"}
		_, condition := answerTo(t, ask(t, request))
		assert.Equal(t, "Denied", condition.Type)
		assert.Equal(t, "InvalidUnverifiedUserAnnotations", condition.Reason)
	})
}

// Taking the label away takes nothing: a pod that has a certificate gets the next one.
func TestANamespaceThatWasOptedInGoesOn(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, pod, k)), k)
	ready := func(contains string) {
		harness.Eventually(t, func() error {
			svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := api.Condition(svc, api.ConditionReady); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, contains) {
				return fmt.Errorf("condition Ready is %v", c)
			}
			return nil
		})
	}
	ready("each pod makes its key")
	unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, api.LabelInject)
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, unlabel, metav1.PatchOptions{})
	require.NoError(t, err)
	ready("no longer has label")
	next := newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, pod, next)), next)
}
