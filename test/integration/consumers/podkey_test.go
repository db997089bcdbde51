package consumers

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// makesKey gives a pod a volume with a key that its kubelet makes, in the place of a
// Secret.
func makesKey(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{controlplane.PodCertificateVolume(api.SignerName)}
}

// needsPodCertificates skips the test where an API server takes the source away that
// makesKey gives.
func needsPodCertificates(t *testing.T) {
	t.Helper()
	harness.Needs(t, cluster.AdminConfig(), controlplane.PodCertificates)
}

func asksForPodKeys(svc *corev1.Service) {
	svc.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
}

// saidPodKeys says of a Service whose pods make their keys what the signer does.
func saidPodKeys(t testing.TB, svc *corev1.Service, kept ...string) {
	t.Helper()
	setReady(t, svc, metav1.Condition{Status: metav1.ConditionTrue, Reason: api.ReasonPodKeys, Message: "each pod makes its key"}, state.Ready{Names: []string{name(svc)}, Kept: kept})
}

// podOf makes a ready pod of a Deployment of its Service's name that serves the pair.
func podOf(t *testing.T, svc *corev1.Service, podName string, port uint16, pair *tls.Certificate, changes ...func(*corev1.Pod)) *server {
	t.Helper()
	at := netip.AddrPortFrom(nextAddress(), port)
	s := serve(t, at, pair)
	isReady(t, newPod(t, svc.Namespace, podName, svc.Name, changes...), at.Addr(), true)
	return s
}

// fresh returns a pair that was just issued, and overdue one that is still valid and that
// the kubelet should have replaced long ago.
func fresh(t *testing.T, names ...string) *tls.Certificate {
	t.Helper()
	return issue(t, ours, time.Now(), names...)
}

func overdue(t *testing.T, names ...string) *tls.Certificate {
	t.Helper()
	pair := issue(t, ours, time.Now().Add(-57*time.Minute), names...)
	require.True(t, time.Now().After(pki.RefreshAt(pair.Leaf).Add(5*time.Minute)))
	return pair
}

func TestARefreshIsSeen(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	ns := harness.NewNamespace(t, admin, "shop-", true)
	port := process.PortFor(t, "")
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)), asksForPodKeys)
	h := watchServing(t, svc)
	first := podOf(t, svc, "web-abc-0", port, fresh(t, name(svc)), makesKey)
	second := podOf(t, svc, "web-abc-1", port, overdue(t, name(svc)), makesKey)
	saidPodKeys(t, svc)
	stale := becomes(t, svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "a certificate that should have been replaced is still served by Deployment web: ")
	r.counts(t, ns, map[string]int{"current": 1, "stale": 1})
	assert.InDelta(t, second.pair.Load().Leaf.NotAfter.Unix(), r.Metrics(t).Sum("servingcert_stale_not_after_timestamp_seconds", "namespace", ns), 0)

	second.pair.Store(fresh(t, name(svc)))
	becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotEqual(t, fingerprint(first.pair.Load()), fingerprint(second.pair.Load()), "each has its own")
	r.counts(t, ns, map[string]int{"current": 2})

	said := len(h.until(t, 1, "True Current"))
	later := newService(t, ns, "later", intstr.FromInt32(int32(port)), asksForPodKeys, func(other *corev1.Service) { other.Spec.Selector = svc.Spec.Selector })
	saidPodKeys(t, later)
	becomes(t, later, metav1.ConditionFalse, api.ServingPropagating) // the pods get its name at their next refresh
	becomes(t, svc, metav1.ConditionFalse, api.ServingPropagating)
	for _, s := range []*server{first, second} {
		s.pair.Store(fresh(t, name(svc), name(later)))
	}
	becomes(t, later, metav1.ConditionTrue, api.ServingCurrent)
	becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)
	harness.Eventually(t, func() error { // the watch may be behind
		if n := len(h.all()); n != said+2 {
			return fmt.Errorf("the condition was written %d times, want 2: %v", n-said, h.all())
		}
		return nil
	})
}

// A Service is switched to keys of its pods, and back, while pods of both kinds run.
func TestPodsOfBothKindsDuringASwitch(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	port := s.servers[0].at.Port()

	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod) })
	saidPodKeys(t, s.svc, "web-tls")
	own := podOf(t, s.svc, "web-abc-own", port, overdue(t, name(s.svc)), makesKey)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	r.counts(t, s.ns, map[string]int{"current": 1, "stale": 1})
	own.pair.Store(fresh(t, name(s.svc)))
	both := becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotContains(t, both.Message, "leaf")
	s.servers[0].pair.Store(overdue(t, name(s.svc))) // the Secret from before is renewed, and this server does not reload
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)

	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationKeySource] = string(api.KeySourceSecret) })
	s.renew(t)
	s.servers[0].pair.Store(s.pair)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.Equal(t, fingerprint(s.pair), stated(t, s.svc).Leaf)
	r.counts(t, s.ns, map[string]int{"current": 2})
	own.pair.Store(overdue(t, name(s.svc)))
	stale := becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "a certificate that should have been replaced is still served by ")
}

// Pods whose key the kubelet made, with a certificate of another signer, are proven and reported as those of ours. Who
// issued it is not known, and the condition says so.
func TestPodsWithKeysOfAnotherSigner(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	ns := harness.NewNamespace(t, admin, "shop-", true)
	port := process.PortFor(t, "")
	theirs := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{controlplane.PodCertificateVolume("example.com/serving")}
	}
	other := rotatortest.NewCA(t, 7, time.Now()).Renamed(t)
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)), func(svc *corev1.Service) {
		svc.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod), api.AnnotationIssuer: string(api.IssuerExternal)}
	})
	setReady(t, svc, metav1.Condition{Status: metav1.ConditionTrue, Reason: api.ReasonExternal, Message: "each pod makes its key"}, state.Ready{External: true, Names: []string{name(svc)}})
	s := podOf(t, svc, "web-abc-0", port, issue(t, other, time.Now(), name(svc)), theirs)
	assert.Contains(t, becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent).Message, "who issued it is not verified")
	r.counts(t, ns, map[string]int{"current": 1})

	s.pair.Store(issue(t, other, time.Now(), "api."+ns+".svc"))
	becomes(t, svc, metav1.ConditionFalse, api.ServingForeign)
	s.pair.Store(issue(t, other, time.Now().Add(-57*time.Minute), name(svc))) // it ends in minutes, and its kubelet has another by now
	stale := becomes(t, svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "a certificate that should have been replaced is still served by Deployment web: ")
	s.pair.Store(issue(t, other, time.Now(), name(svc)))
	becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)

	isReady(t, newPod(t, ns, "old-0", svc.Name), nextAddress(), true) // mounts a Secret, and no key of its own
	assert.Contains(t, becomes(t, svc, metav1.ConditionFalse, api.ServingNotMounted).Message, "pods without a key of their own serve no certificate")
}
