package consumers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/pkg/rotator/kubeletsync"
	rotated "github.com/servingcert/servingcert/pkg/rotator/serving"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// shop is a Service with pods that serve.
type shop struct {
	ns      string
	svc     *corev1.Service
	pods    []*corev1.Pod
	servers []*server
	pair    *tls.Certificate
}

func name(svc *corev1.Service) string { return svc.Name + "." + svc.Namespace + ".svc" }

// newShop makes n ready pods that serve the certificate that was just issued.
func newShop(t testing.TB, n int, changes ...func(*corev1.Pod)) *shop {
	t.Helper()
	s := &shop{ns: harness.NewNamespace(t, admin, "shop-", true)}
	port := process.PortFor(t, "")
	s.svc = newService(t, s.ns, "web", intstr.FromInt32(int32(port)))
	s.pair = issue(t, ours, time.Now().Add(-10*time.Minute), name(s.svc))
	issued(t, s.svc, s.pair)
	for i := range n {
		at := netip.AddrPortFrom(nextAddress(), port)
		s.servers = append(s.servers, serve(t, at, s.pair))
		pod := newPod(t, s.ns, fmt.Sprintf("web-abc-%04d", i), "web", changes...)
		isReady(t, pod, at.Addr(), true)
		s.pods = append(s.pods, pod)
	}
	return s
}

// renew writes a new certificate into the condition, which no server has yet.
func (s *shop) renew(t testing.TB) *tls.Certificate {
	t.Helper()
	s.pair = issue(t, ours, time.Now(), name(s.svc))
	issued(t, s.svc, s.pair)
	return s.pair
}

func TestARotationIsDoneWhenItIsServed(t *testing.T) {
	var clock harness.Clock
	r := startRotator(t, func(c *rotator.Config) { c.Cluster.Now, c.Serving.PropagationTime = clock.Now, 10*time.Minute })
	s := newShop(t, 3)
	h := watchServing(t, s.svc)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.Equal(t, fingerprint(s.pair), stated(t, s.svc).Leaf)
	r.counts(t, s.ns, map[string]int{"current": 3})
	before := h.until(t, 1, "True Current")

	old := s.pair
	renewed := s.renew(t)
	propagating := becomes(t, s.svc, metav1.ConditionFalse, api.ServingPropagating)
	assert.Equal(t, fingerprint(renewed), stated(t, s.svc).Leaf)
	s.servers[0].pair.Store(renewed) // one reloads
	r.counts(t, s.ns, map[string]int{"current": 1, "propagating": 2})
	clock.Set(clock.Now().Add(10 * time.Minute))
	stale := becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "still served by Deployment web: ")
	assert.True(t, stale.LastTransitionTime.Equal(&propagating.LastTransitionTime))
	r.counts(t, s.ns, map[string]int{"current": 1, "stale": 2})
	assert.InDelta(t, old.Leaf.NotAfter.Unix(), r.Metrics(t).Sum("servingcert_stale_not_after_timestamp_seconds", "namespace", s.ns), 0)

	harness.Eventually(t, func() error {
		if n := len(harness.Events(t, admin, s.ns, servingcontroller.EventServesOld, "")); n != 1 {
			return fmt.Errorf("%d events, want 1", n)
		}
		return nil
	})
	e := harness.Events(t, admin, s.ns, servingcontroller.EventServesOld, "")[0]
	assert.Equal(t, "Deployment web", e.Regarding.Kind+" "+e.Regarding.Name)
	require.NotNil(t, e.Related)
	assert.Equal(t, s.svc.UID, e.Related.UID)
	assert.Contains(t, e.Note, "2 pods (web-abc-0001 among them) serve an older certificate than Secret web-tls has held since ")
	assert.Contains(t, e.Note, "kubectl rollout restart deployment/web -n "+s.ns)

	s.servers[1].pair.Store(renewed)
	s.servers[2].pair.Store(renewed)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	r.counts(t, s.ns, map[string]int{"current": 3})
	assert.Empty(t, r.Metrics(t).With("servingcert_stale_not_after_timestamp_seconds", "namespace", s.ns))
	r.observed(t, "servingcert_propagation_seconds", 3)
	assert.Equal(t, append(before, "False Propagating", "False Stale", "True Current"), h.until(t, len(before)+3, "True Current"), "nothing is written that changes nothing")
	assert.Len(t, harness.Events(t, admin, s.ns, servingcontroller.EventServesOld, ""), 1)
}

// As README.md types it: kubectl waits while the pod serves an older certificate.
func TestKubectlWaitsForServing(t *testing.T) {
	kubectl := harness.Kubectl(t)
	startRotator(t, func(c *rotator.Config) { c.Serving.PropagationTime = time.Hour }) // as long as a look may take
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	renewed := s.renew(t)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingPropagating)
	answer := harness.KubectlWait(t, kubectl, kubeconfig, api.ConditionServing, s.ns)
	s.servers[0].pair.Store(renewed)
	answer()
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
}

// Pods that are older than the request are behind the Service's TLS port until the last of them is gone.
func TestPodsWithoutTheKey(t *testing.T) {
	startRotator(t, func(c *rotator.Config) { c.Serving.Interval = time.Hour }) // no answer of a pod has it decided again
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	old := newPod(t, s.ns, "web-old-1", "web", func(p *corev1.Pod) { p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil })
	c := becomes(t, s.svc, metav1.ConditionFalse, api.ServingNotMounted)
	assert.Contains(t, c.Message, "not served by pods that do not mount it: Deployment web; restart them")
	remove(t, old)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
}

func TestPodsThatComeAndGo(t *testing.T) {
	r := startRotator(t)
	s := newShop(t, 1)
	h := watchServing(t, s.svc)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	h.until(t, 1, "True Current")
	said := len(h.all())

	at := netip.AddrPortFrom(nextAddress(), s.servers[0].at.Port())
	second := serve(t, at, s.pair)
	pod := newPod(t, s.ns, "web-abc-more", "web")
	r.counts(t, s.ns, map[string]int{"current": 1, "not_ready": 1})
	assert.Zero(t, second.dials.Load(), "what is not ready is not dialled")
	isReady(t, pod, at.Addr(), true)
	r.counts(t, s.ns, map[string]int{"current": 2})

	dials := second.dials.Load()
	isReady(t, pod, at.Addr(), false) // its process was replaced
	r.counts(t, s.ns, map[string]int{"current": 1, "not_ready": 1})
	second.pair.Store(issue(t, ours, time.Now(), "another.shop.svc"))
	isReady(t, pod, at.Addr(), true)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingForeign)
	assert.Greater(t, second.dials.Load(), dials)

	remove(t, pod) // and one of its name in its place
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	third := serve(t, netip.AddrPortFrom(nextAddress(), at.Port()), s.pair)
	pod = newPod(t, s.ns, "web-abc-more", "web")
	isReady(t, pod, third.at.Addr(), true)
	r.counts(t, s.ns, map[string]int{"current": 2})
	assert.Equal(t, []string{"False Foreign", "True Current"}, h.until(t, said+2, "True Current")[said:])

	isReady(t, pod, third.at.Addr(), false)
	isReady(t, s.pods[0], s.servers[0].at.Addr(), false)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingNoConsumers)
	r.counts(t, s.ns, map[string]int{"not_ready": 2})
}

func TestANewLeaderGoesOn(t *testing.T) {
	first := startRotator(t, func(c *rotator.Config) { c.Serving.PropagationTime = time.Hour })
	s := newShop(t, 2)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	s.renew(t)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingPropagating)
	said := stated(t, s.svc)
	require.NotZero(t, said.Since)
	first.Stop()

	h := watchServing(t, s.svc)
	second := startRotator(t)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	assert.Equal(t, said.Since, stated(t, s.svc).Since, "the time of the first")
	second.counts(t, s.ns, map[string]int{"stale": 2})
	assert.Equal(t, []string{"False Propagating", "False Stale"}, h.until(t, 2, "False Stale"))

	second.Stop()
	third := startRotator(t)
	third.counts(t, s.ns, map[string]int{"stale": 2})
	assert.Equal(t, []string{"False Propagating", "False Stale"}, h.all(), "it has nothing else to say")
}

func TestNobodyLooks(t *testing.T) {
	first := startRotator(t)
	s := newShop(t, 1)
	untouched := newService(t, s.ns, "other", intstr.FromInt32(1))
	issued(t, untouched, s.pair)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	becomes(t, untouched, metav1.ConditionFalse, api.ServingNoConsumers)
	first.Stop()
	dials := s.servers[0].dials.Load()

	h := watchServing(t, s.svc)
	off := startRotator(t, func(c *rotator.Config) { c.Serving.Verify = false })
	becomes(t, s.svc, metav1.ConditionUnknown, api.ServingNotVerified)
	becomes(t, untouched, metav1.ConditionUnknown, api.ServingNotVerified)
	fresh := newService(t, s.ns, "fresh", intstr.FromInt32(1))
	issued(t, fresh, s.pair)
	s.renew(t)
	third := newService(t, s.ns, "last", intstr.FromInt32(1)) // seen after all of that
	issued(t, third, s.pair)
	setServing(t, third)
	becomes(t, third, metav1.ConditionUnknown, api.ServingNotVerified)
	assert.Nil(t, serving(t, fresh), "nothing is said where nothing was")
	assert.Equal(t, []string{"True Current", "Unknown NotVerified"}, h.until(t, 2, "Unknown NotVerified"), "once")
	assert.Equal(t, dials, s.servers[0].dials.Load())
	assert.Empty(t, off.Metrics(t).With("servingcert_consumers", "namespace", s.ns))
	off.Stop()

	startRotator(t)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
}

// setServing says something that nobody has seen.
func setServing(t testing.TB, svc *corev1.Service) {
	t.Helper()
	say(t, svc, state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "by hand", LastTransitionTime: metav1.Now()}, state.Serving{}))
}

func TestWhatIsSaidGoesWithTheCertificate(t *testing.T) {
	startRotator(t)
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	gone := func() {
		t.Helper()
		harness.Eventually(t, func() error {
			if c := serving(t, s.svc); c != nil {
				return fmt.Errorf("it still says %s %s", c.Status, c.Reason)
			}
			return nil
		})
	}
	setReady(t, s.svc, metav1.Condition{Status: metav1.ConditionFalse, Reason: "SigningFailed", Message: "no"}, state.Ready{})
	s.servers[0].pair.Store(issue(t, ours, time.Now(), "x.shop.svc"))
	becomes(t, s.svc, metav1.ConditionUnknown, api.ServingNotVerified) // what the Secret holds is not known, so neither is whether it is served

	s.servers[0].pair.Store(s.pair)
	setReady(t, s.svc, metav1.Condition{Status: metav1.ConditionTrue, Reason: api.ReasonRetained, Message: "no longer requested"}, state.Ready{Secret: "web-tls", Leaf: fingerprint(s.pair)})
	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { delete(svc.Annotations, api.AnnotationSecretName) })
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)

	setReady(t, s.svc, metav1.Condition{Status: metav1.ConditionFalse, Reason: "InvalidAnnotation", Message: "no"}, state.Ready{})
	gone() // there is no Secret that is its own any more
}

// A chain that is corrected under the same leaf is followed: a pod that sends the earlier one is reported until it has
// loaded the new one, and a pod that sends all that is needed is not.
func TestAChainIsCorrectedUnderTheSameLeaf(t *testing.T) {
	var clock harness.Clock
	r := startRotator(t, func(c *rotator.Config) { c.Cluster.Now, c.Serving.PropagationTime = clock.Now, 10*time.Minute })
	s := newShop(t, 2)
	intermediate := issue(t, ours, time.Now(), "intermediate."+s.ns+".svc").Leaf
	whole := *s.pair
	whole.Certificate = [][]byte{s.pair.Certificate[0], ours.Root.Raw, intermediate.Raw}
	s.servers[1].pair.Store(&whole)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)

	links := pki.Links([]*x509.Certificate{intermediate}, time.Now())
	setReady(t, s.svc, metav1.Condition{Status: metav1.ConditionTrue, Reason: api.ReasonExternal, Message: "names"}, state.Ready{
		Secret: "web-tls", Leaf: fingerprint(s.pair), External: true, Chain: []string{links},
	})
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingPropagating)
	wokenFor(t, kubeletsync.LeafContent(rotated.Rotation{Leaf: fingerprint(s.pair), Chain: links}).Hash, s.pods[0])
	assert.NotContains(t, read(t, s.pods[1]).Annotations, api.AnnotationLeaf, "it serves the chain")
	r.counts(t, s.ns, map[string]int{"current": 1, "propagating": 1})
	clock.Set(clock.Now().Add(10 * time.Minute))
	stale := becomes(t, s.svc, metav1.ConditionFalse, api.ServingStale)
	assert.Contains(t, stale.Message, "without an intermediate that its clients need")
	s.servers[0].pair.Store(&whole)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	r.counts(t, s.ns, map[string]int{"current": 2})
}
