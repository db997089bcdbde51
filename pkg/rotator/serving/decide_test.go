package serving

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func readyPod(name, workload string, changes ...rotatortest.Change) *pods.Facts {
	return pods.FactsOf(rotatortest.ReadyPod(name, workload, changes...))
}

// lookAt is the situation with these pods, whose answers are from the given time after noon.
func lookAt(after time.Duration, svc *corev1.Service, consumers ...consumer) SecretSituation {
	s := SecretSituation{Secret: "web-tls", Common: Common{
		Now: rotatortest.Noon.Add(after), Namespace: "shop", Services: []*corev1.Service{svc}, Listing: []*corev1.Service{svc}, Pace: testPace,
		KeyState: KeyState{certificate: cert2, begun: rotatortest.Noon.Add(-time.Hour)},
	}}
	return with(s, consumers...)
}

// with replaces the pods.
func with(s SecretSituation, consumers ...consumer) SecretSituation {
	s.Pods, s.KeyState.pods = nil, map[types.UID]*podState{}
	for _, c := range consumers {
		s.Pods = append(s.Pods, c.pod)
		s.KeyState.pods[c.pod.UID] = &podState{admits: c.pod.Admits, seen: c.seen, answers: c.answers, reached: c.reached}
	}
	return s
}

func asked(pod *pods.Facts, answers ...probe.Answer) consumer {
	return consumer{pod: pod, seen: rotatortest.Noon.Add(-time.Hour), answers: answers}
}

// dialled returns the UIDs of the pods.
func dialled(d Decision) []types.UID {
	var uids []types.UID
	for _, v := range d.Dial {
		uids = append(uids, v.Pod)
	}
	return uids
}

func TestDecideConsumers(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	restart := rotatortest.Annotation(api.AnnotationOnRotate, "restart")
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(time.Minute)) }
	old, late := showed(rotatortest.Leaf(1), 3*time.Minute), 3*time.Minute+time.Second
	old.NotAfter = rotatortest.Noon.Add(time.Hour)
	sooner := old
	sooner.NotAfter = rotatortest.Noon.Add(time.Minute)
	all := []consumer{
		asked(readyPod("b", "web"), old), asked(readyPod("a", "web"), sooner), asked(readyPod("c", "web"), showed(rotatortest.Leaf(2), time.Minute)),
		asked(readyPod("d", "web", younger), old), // it reads other files
		asked(readyPod("e", "api", restart), old),
		asked(readyPod("bare-2", ""), old), asked(readyPod("bare", ""), old),
	}
	s := lookAt(late, svc, all...)
	d := s.Decide()
	assert.Empty(t, d.Dial)
	assert.InDelta(t, 59+15, d.After.Seconds(), 15, "60 to 90 s after the last dial: they are stale since 60")
	assert.Equal(t, map[State]int{stateStale: 6, stateCurrent: 1}, d.States)
	assert.Equal(t, rotatortest.Noon.Add(time.Minute), d.NotAfter)
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, api.ServingStale, d.Conditions[0].Want.Reason)
	assert.Contains(t, d.Conditions[0].Want.Message, "served by Deployment api, Deployment web, pods without a controller: ")

	stale := func(w pods.Workload, r api.OnRotate, other bool, first string, bare ...string) StaleWorkload {
		return StaleWorkload{
			Workload: w, Key: pods.SecretKey("web-tls"), Leaf: rotatortest.Leaf(2), Since: rotatortest.Noon, OnRotate: r, ReadsOtherFiles: other,
			Pods: max(1, len(bare)), Pod: first, PodUID: types.UID("uid-of-" + first), BarePods: bare, Service: "web", ServiceUID: "uid-of-web",
		}
	}
	web := stale(deploymentNamed("web"), api.OnRotateReload, false, "a")
	web.Pods = 2
	want := []StaleWorkload{
		stale(pods.Workload{}, api.OnRotateReload, false, "bare", "bare", "bare-2"), stale(deploymentNamed("api"), api.OnRotateRestart, false, "e"),
		web, stale(deploymentNamed("web"), api.OnRotateReload, true, "d"),
	}
	assert.Equal(t, want, d.Stale)
	assert.Equal(t, want, d.Notify)

	early := with(s, append(all, asked(readyPod("f", "web"), showed(rotatortest.Leaf(1), time.Minute)))...).Decide()
	assert.Empty(t, early.Notify, "not of some while others may follow")
	assert.Empty(t, early.KeyState.notified)
	assert.Len(t, early.Stale, 4)

	s.KeyState.notified = d.KeyState.notified
	again := with(s, all[:4]...).Decide()
	assert.Empty(t, again.Notify, "each is reported once")
	assert.Len(t, again.Stale, 2)
	s.KeyState.notified = again.KeyState.notified
	assert.Equal(t, d.KeyState.notified, with(s).Decide().KeyState.notified, "and stays reported while the certificate is the same")
}

// TestAChainThatWasCorrected, under the same leaf, is followed like a new certificate: pods that have loaded the earlier chain
// are reported once they have had the time to load it, and those that sent all of it before are not.
func TestAChainThatWasCorrected(t *testing.T) {
	leaf := rotatortest.Leaf(2)
	svc := sends(rotatortest.Serves(rotatortest.Ready("web", leaf), leaf, rotatortest.Noon.Add(-time.Hour)), link)
	complete := showed(leaf, -time.Minute)
	complete.Links = link
	s := lookAt(0, svc, asked(readyPod("a", "web"), showed(leaf, -time.Minute)), asked(readyPod("b", "api"), complete))
	s.KeyState.certificate.since = rotatortest.Noon.Add(-time.Hour)
	s.KeyState.notified = []notification{{workload: deploymentNamed("web")}}
	d := s.Decide()
	assert.Equal(t, map[State]int{statePending: 1, stateCurrent: 1}, d.States)
	assert.Equal(t, rotatortest.Noon, d.KeyState.certificate.since)
	assert.Empty(t, d.KeyState.notified)
	assert.LessOrEqual(t, d.After, testPace.Pause, "it is dialled soon")

	late := testPace.Propagation
	s = with(s, asked(readyPod("a", "web"), showed(leaf, late)), asked(readyPod("b", "api"), complete))
	s.Now, s.KeyState.certificate = rotatortest.Noon.Add(late), d.KeyState.certificate
	d = s.Decide()
	assert.Equal(t, map[State]int{stateStale: 1, stateCurrent: 1}, d.States)
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, "False Stale", string(d.Conditions[0].Want.Status)+" "+d.Conditions[0].Want.Reason)
	assert.Contains(t, d.Conditions[0].Want.Message, "served by Deployment web: ")
	assert.Contains(t, d.Conditions[0].Want.Message, "; some of them serve the right certificate without an intermediate that its clients need")
	require.Len(t, d.Notify, 1)
	assert.Equal(t, deploymentNamed("web"), d.Notify[0].Workload)
	assert.Equal(t, rotatortest.Noon, d.Notify[0].Since)
}

// Static pods that a Service selects are dialled and counted like those that mount its Secret, and
// each is reported by its own pod.
func TestStaticPods(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(time.Minute)) }
	one := readyPod("kube-scheduler-cp-1", "", rotatortest.Mirror("cp-1"), younger)
	assert.Equal(t, []types.UID{one.UID}, dialled(lookAt(time.Minute, svc, asked(one)).Decide()))
	late := 3*time.Minute + time.Second
	d := lookAt(late, svc, asked(one, showed(rotatortest.Leaf(1), late)), asked(readyPod("kube-scheduler-cp-2", "", rotatortest.Mirror("cp-2")), showed(rotatortest.Leaf(2), late)),
		asked(readyPod("etcd-cp-1", "", rotatortest.Mirror("cp-1"), rotatortest.Label("app", "etcd")))).Decide()
	assert.Equal(t, map[State]int{stateStale: 1, stateCurrent: 1}, d.States, "the third is not selected")
	require.Len(t, d.Notify, 1)
	assert.False(t, d.Notify[0].ReadsOtherFiles, "something else fills its files, whenever the pod was created")
	regarding, related := d.Notify[0].Objects("shop", "")
	assert.Equal(t, "kube-scheduler-cp-1", regarding.(*corev1.ObjectReference).Name)
	assert.Equal(t, "web", related.(*corev1.ObjectReference).Name)
	require.Len(t, d.Conditions, 1)
	assert.Contains(t, d.Conditions[0].Want.Message, "served by Node cp-1: ")
}

// If nothing is verified, existing conditions are removed or marked.
func TestConditionsWhereNothingIsVerified(t *testing.T) {
	one, leaf := rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2)
	serves, never := rotatortest.Serves(one.DeepCopy(), leaf, rotatortest.Noon), rotatortest.Ready("api", leaf)
	s := lookAt(time.Minute, serves)
	s.Off, s.Services = true, []*corev1.Service{serves, never}
	d := s.Decide()
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, serves, d.Conditions[0].Service)
	assert.Equal(t, api.ServingNotVerified, d.Conditions[0].Want.Reason)

	refused := serves.DeepCopy()
	refused.Status.Conditions = slices.DeleteFunc(refused.Status.Conditions, func(c metav1.Condition) bool { return c.Type != api.ConditionServing })
	s.Services, s.KeyState = []*corev1.Service{refused}, NewKeyState(rotatortest.Noon)
	assert.Equal(t, []ConditionUpdate{{refused, nil}}, s.Decide().Conditions, "no certificate is to be served")
}

func TestDialledPods(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	current := asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), 0))
	outdated := asked(readyPod("b", "web"), showed(rotatortest.Leaf(1), -time.Hour))
	unready := asked(readyPod("c", "web", func(p *corev1.Pod) { p.Status.Conditions = nil }))
	first := asked(readyPod("d", "web"))
	now := metav1.NewTime(rotatortest.Noon)
	leaves := asked(readyPod("e", "web", func(p *corev1.Pod) { p.DeletionTimestamp = &now }))
	d := lookAt(time.Minute, svc, current, outdated, unready, first, leaves).Decide()
	assert.Equal(t, []types.UID{"uid-of-b", "uid-of-d"}, dialled(d))
	assert.Equal(t, 1, d.States[stateNotReady], "one that leaves is none of them")
	assert.Positive(t, d.After)
}

func TestAServiceWithoutReadyPods(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	d := lookAt(time.Minute, svc).Decide()
	assert.Empty(t, d.Conditions, "not at once")
	assert.Equal(t, map[types.UID]time.Time{svc.UID: rotatortest.Noon.Add(time.Minute)}, d.KeyState.lacking)
	assert.Equal(t, 30*time.Second, d.After)
	s := lookAt(90*time.Second, svc)
	s.KeyState.lacking = d.KeyState.lacking
	d = s.Decide()
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, api.ServingNoConsumers, d.Conditions[0].Want.Reason)
	assert.Zero(t, d.After)

	s = lookAt(91*time.Second, svc, asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), time.Second)))
	s.KeyState.lacking = d.KeyState.lacking
	assert.Empty(t, s.Decide().KeyState.lacking)
}

func TestNewPodKeepsCondition(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	current, unasked := asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), 0)), asked(readyPod("b", "web"))
	unasked.seen = rotatortest.Noon
	d := lookAt(time.Minute, svc, current, unasked).Decide()
	require.Len(t, d.Conditions, 1)
	assert.Equal(t, api.ServingCurrent, d.Conditions[0].Want.Reason)
	assert.Equal(t, map[State]int{stateCurrent: 1, statePending: 1}, d.States)

	s := lookAt(time.Minute, svc, current, unasked) // by a leader that has just begun
	s.KeyState.begun = rotatortest.Noon
	assert.Empty(t, s.Decide().Conditions, "no condition before the first dial")
}

func TestFiftyServicesOverOnePod(t *testing.T) {
	var services []*corev1.Service
	for i := range 50 {
		services = append(services, rotatortest.Ready(fmt.Sprintf("web-%02d", i), rotatortest.Leaf(2)))
	}
	s := lookAt(time.Minute, services[0], asked(readyPod("a", "web")))
	s.Services = services
	assert.Len(t, s.Decide().Dial, 1)
	d := with(s, asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), time.Second))).Decide()
	assert.Empty(t, d.Dial)
	require.Len(t, d.Conditions, 50)
	for _, c := range d.Conditions {
		assert.Equal(t, api.ServingCurrent, c.Want.Reason)
	}
}

// The targets, and the delay when a pod serves the new certificate.
func TestTargetsAndArrivals(t *testing.T) {
	svc := rotatortest.Ready("web", rotatortest.Leaf(2))
	d := lookAt(time.Minute, svc, asked(readyPod("a", "web"))).Decide()
	require.Len(t, d.Dial, 1)
	v := d.Dial[0]
	assert.Equal(t, pods.NamespacedKey{Namespace: "shop", Key: pods.SecretKey("web-tls")}, v.Of)
	assert.Equal(t, "10.0.0.7", v.Address.String())
	assert.Equal(t, []uint16{8443}, v.Ports)
	assert.Equal(t, "web.shop.svc", v.Name)
	assert.Equal(t, []string{"web.shop.svc"}, v.Names)
	assert.Equal(t, []string{rotatortest.Leaf(2), rotatortest.Leaf(1)}, v.Leaves)

	arrived := asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), time.Minute))
	arrived.reached = rotatortest.Leaf(1)
	first := asked(readyPod("b", "web"), showed(rotatortest.Leaf(2), 30*time.Second))
	stays := asked(readyPod("c", "web"), showed(rotatortest.Leaf(1), 30*time.Second))
	stays.reached = rotatortest.Leaf(1)
	s := lookAt(2*time.Minute, svc, arrived, first, stays)
	d = s.Decide()
	assert.Equal(t, []time.Duration{time.Minute}, d.Arrivals, "of the pod that was seen to serve the one before")
	d.KeyState.TakeAnswers(s.KeyState)
	s.KeyState = d.KeyState
	assert.Empty(t, s.Decide().Arrivals, "once")
}

func TestEarliestExpiry(t *testing.T) {
	ends := func(a probe.Answer, after time.Duration) probe.Answer {
		a.NotAfter = rotatortest.Noon.Add(after)
		return a
	}
	late := 3 * time.Minute
	c := consumerOf([]probe.Answer{ends(showed(rotatortest.Leaf(1), late), 2*time.Hour), ends(showed(rotatortest.Leaf(1), late), time.Hour), ends(showed(rotatortest.Leaf(2), late), time.Minute)})
	assert.Equal(t, rotatortest.Noon.Add(time.Hour), c.firstExpiry(cert2, testPace), "of those that are stale")
}
