package consumers

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	restartpolicy "github.com/servingcert/servingcert/pkg/rotator/restart"
	restartcontroller "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
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
	return ours.issue(t, time.Now(), names...)
}

func overdue(t *testing.T, names ...string) *tls.Certificate {
	t.Helper()
	pair := ours.issue(t, time.Now().Add(-57*time.Minute), names...)
	require.True(t, time.Now().After(pki.RefreshAt(pair.Leaf).Add(5*time.Minute)))
	return pair
}

// TestWhatPodsWithKeysOfTheirOwnServe has a Service with one pod for each.
func TestWhatPodsWithKeysOfTheirOwnServe(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	ns := newNamespace(t)
	port := process.PortFor(t, "")
	host := func(service string) string { return service + "." + ns + ".svc" }
	tests := map[string]struct {
		pair   *tls.Certificate
		status metav1.ConditionStatus
		reason string
	}{
		"current":   {fresh(t, host("current")), metav1.ConditionTrue, api.ServingCurrent},
		"overdue":   {overdue(t, host("overdue")), metav1.ConditionFalse, api.ServingStale},
		"expired":   {ours.issue(t, time.Now().Add(-50*time.Hour), host("expired")), metav1.ConditionFalse, api.ServingStale},
		"names":     {fresh(t, host("another")), metav1.ConditionFalse, api.ServingForeign},
		"stranger":  {newAuthority(7, false).issue(t, time.Now(), host("stranger")), metav1.ConditionFalse, api.ServingForeign},
		"distrust":  {newAuthority(3, true).issue(t, time.Now(), host("distrust")), metav1.ConditionFalse, api.ServingStale},
		"plaintext": {nil, metav1.ConditionFalse, api.ServingPlaintext},
	}
	services := map[string]*corev1.Service{}
	for service, tt := range tests {
		svc := newService(t, ns, service, intstr.FromInt32(int32(port)), asksForPodKeys)
		services[service] = svc
		if tt.pair != nil {
			podOf(t, svc, service+"-abc-0", port, tt.pair, makesKey)
		} else {
			at := plainHTTP(t, netip.AddrPortFrom(nextAddress(), port)).at
			isReady(t, newPod(t, ns, service+"-abc-0", service, makesKey), at.Addr(), true)
		}
		saidPodKeys(t, svc)
	}
	for service, tt := range tests {
		c := becomes(t, services[service], tt.status, tt.reason)
		assert.NotContains(t, c.Message, "leaf", "the pods have no leaf in common")
		assert.Empty(t, stated(t, services[service]).Leaf)
	}
	r.counts(t, ns, map[string]int{"current": 1, "stale": 3, "foreign": 2, "plaintext": 1})
	harness.Eventually(t, func() error {
		if n := len(events(t, ns, servingcontroller.EventServesOld)); n != 3 {
			return fmt.Errorf("%d events, want 3", n)
		}
		return nil
	})
}

func TestARefreshIsSeen(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	ns := newNamespace(t)
	port := process.PortFor(t, "")
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)), asksForPodKeys)
	h := watchServing(t, svc)
	first := podOf(t, svc, "web-abc-0", port, fresh(t, name(svc)), makesKey)
	second := podOf(t, svc, "web-abc-1", port, overdue(t, name(svc)), makesKey)
	saidPodKeys(t, svc)
	stale := becomes(t, svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "a certificate that should have been replaced is still served by Deployment web: ")
	r.counts(t, ns, map[string]int{"current": 1, "stale": 1})
	notAfter, ok := r.metric(t, "servingcert_stale_not_after_timestamp_seconds", map[string]string{"namespace": ns})
	assert.True(t, ok)
	assert.InDelta(t, second.pair.Load().Leaf.NotAfter.Unix(), notAfter, 0)

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

// A pod of a StatefulSet has a name of its own, and it is refreshed late: the next certificate
// was issued when the one before was overdue.
func TestAPodOfAStatefulSetServesItsOwnName(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	ns := newNamespace(t)
	port := process.PortFor(t, "")
	svc := newService(t, ns, "db", intstr.FromInt32(int32(port)), asksForPodKeys) // headless
	saidPodKeys(t, svc)
	named := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db" }
	s := podOf(t, svc, "db-abc-0", port, fresh(t, name(svc)), makesKey, named)
	becomes(t, svc, metav1.ConditionFalse, api.ServingPropagating)
	s.pair.Store(fresh(t, name(svc), "db-1."+name(svc)))
	r.counts(t, ns, map[string]int{"propagating": 1})
	s.pair.Store(overdue(t, name(svc), "db-0."+name(svc)))
	becomes(t, svc, metav1.ConditionFalse, api.ServingStale)
	s.pair.Store(fresh(t, name(svc), "db-0."+name(svc)))
	becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)
	r.counts(t, ns, map[string]int{"current": 1})
	r.observed(t, "servingcert_refresh_delay_seconds", 1)
	n, _ := r.metric(t, "servingcert_propagation_seconds", nil)
	assert.Zero(t, n)
}

// Two Services share a Secret, and one is switched to keys of its pods.
func TestAPodIsCountedOnceDuringASwitch(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	port := s.servers[0].at.Port()
	other := newService(t, s.ns, "other", intstr.FromInt32(int32(port)), asksForPodKeys, func(svc *corev1.Service) { svc.Spec.Selector = s.svc.Spec.Selector })
	saidPodKeys(t, other, "web-tls")
	becomes(t, other, metav1.ConditionFalse, api.ServingPropagating) // the pod serves, and for the other Service only
	r.counts(t, s.ns, map[string]int{"current": 1})

	beside := func(p *corev1.Pod) { // a key of its own, and the Secret
		secret := p.Spec.Volumes[0]
		makesKey(p)
		secret.Name = "secret"
		p.Spec.Volumes = append(p.Spec.Volumes, secret)
	}
	podOf(t, s.svc, "web-abc-own", port, fresh(t, name(s.svc), name(other)), beside)
	r.counts(t, s.ns, map[string]int{"current": 2})
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
}

// A Service is switched to keys of its pods, and back, while pods of both kinds run.
func TestPodsOfBothKindsDuringASwitch(t *testing.T) {
	needsPodCertificates(t)
	r := startRotator(t)
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	port := s.servers[0].at.Port()

	change(t, s.svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod) })
	saidPodKeys(t, s.svc, "web-tls")
	own := podOf(t, s.svc, "web-abc-own", port, overdue(t, name(s.svc)), makesKey)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	r.counts(t, s.ns, map[string]int{"current": 1, "stale": 1})
	own.pair.Store(fresh(t, name(s.svc)))
	both := becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotContains(t, both.Message, "leaf")
	s.servers[0].pair.Store(overdue(t, name(s.svc))) // the Secret from before is renewed, and this server does not reload
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)

	change(t, s.svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationKeySource] = string(api.KeySourceSecret) })
	s.renew(t)
	s.servers[0].pair.Store(s.pair)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.Equal(t, fingerprint(s.pair), stated(t, s.svc).Leaf)
	r.counts(t, s.ns, map[string]int{"current": 2})
	own.pair.Store(overdue(t, name(s.svc)))
	stale := becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "a certificate that should have been replaced is still served by ")
}

func TestAWorkloadWhosePodsDoNotReloadTheirKeysIsRestarted(t *testing.T) {
	needsPodCertificates(t)
	startRotator(t)
	ns := newNamespace(t)
	port := process.PortFor(t, "")
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)), asksForPodKeys)
	saidPodKeys(t, svc)
	asks := map[string]string{api.AnnotationOnRotate: string(api.OnRotateRestart)}
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: asks},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
			},
		},
	}
	create(t, deployment)
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	require.NoError(t, admin.Status().Update(t.Context(), deployment)) // its rollout is complete
	pod := newPod(t, ns, "web-abc-0", "web", makesKey, func(p *corev1.Pod) { p.Annotations = asks })
	// It is refreshed 10 minutes after its begin, as it ends after 20, and the kubelet's 5
	// minutes end when the pod runs already.
	begin := time.Now().Add(2*time.Second - 15*time.Minute)
	pair := ours.issueUntil(t, begin.Add(pki.Backdate), begin.Add(20*time.Minute), name(svc))
	at := netip.AddrPortFrom(nextAddress(), port)
	serve(t, at, pair)
	isReady(t, pod, at.Addr(), true)
	becomes(t, svc, metav1.ConditionFalse, api.ServingStale)
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if deployment.Spec.Template.Annotations[restartpolicy.AnnotationRestartedAt] == "" {
			return fmt.Errorf("not restarted: %v", deployment.Spec.Template.Annotations)
		}
		return nil
	})
	harness.Eventually(t, func() error {
		if n := len(events(t, ns, restartcontroller.EventRestarted)); n != 1 {
			return fmt.Errorf("%d events, want 1", n)
		}
		return nil
	})
	assert.Contains(t, events(t, ns, restartcontroller.EventRestarted)[0].Note, "serves a certificate that should have been replaced by ")
}
