package serving

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var demandedOfWeb = probe.Demand{Names: "web.shop.svc"}

var trustOfNow = trusted{id: "2 roots", since: rotatortest.Noon}

// own is an answer with the certificate of a pod's own key, at a time after noon, with its refresh
// time.
func own(after, refresh time.Duration, changes ...func(*probe.Answer)) probe.Answer {
	a := showed(rotatortest.Leaf(7), after)
	a.Ours, a.NotAfter = true, rotatortest.Noon.Add(refresh+2*time.Hour)
	a.PodKey = &probe.PodKeyResult{Trust: trustOfNow.id, Demanded: demandedOfWeb, Verifies: true, Newest: true, RefreshAt: rotatortest.Noon.Add(refresh)}
	for _, change := range changes {
		change(&a)
	}
	return a
}

func distrusted(a *probe.Answer) { a.PodKey.Verifies, a.PodKey.Newest = false, false }
func byOlder(a *probe.Answer)    { a.PodKey.Newest = false }
func lacking(a *probe.Answer)    { a.PodKey.Lacks = "api.shop.svc" }
func foreign(a *probe.Answer)    { a.Ours = false; distrusted(a) }
func otherTrust(a *probe.Answer) { a.PodKey.Trust = "1 roots" }
func otherNames(a *probe.Answer) { a.PodKey.Demanded.Names = "web.shop.svc,x.shop.svc" }

func TestStatesOfAPodKey(t *testing.T) {
	const late = 7*time.Minute - time.Second // after the refresh: less than the kubelet's time and the propagation time
	tests := []struct {
		name string
		a    probe.Answer
		want State
	}{
		{"as it should be", own(time.Hour, 8*time.Hour), stateCurrent},
		{"about to be refreshed", own(8*time.Hour+late, 8*time.Hour), stateCurrent},
		{"not refreshed in time", own(8*time.Hour+late+time.Second, 8*time.Hour), stateStale},
		{"expired", own(20*time.Hour, 8*time.Hour, distrusted), stateStale},
		{"of an older generation", own(time.Hour, 8*time.Hour, byOlder), statePropagating},
		{"of an older generation, not refreshed in time", own(9*time.Hour, 8*time.Hour, byOlder), stateStale},
		{"without one of the names", own(time.Hour, 8*time.Hour, lacking), statePropagating},
		{"without one of the names, not refreshed in time", own(9*time.Hour, 8*time.Hour, lacking), stateStale},
		{"of a CA that was just distrusted", own(2*time.Minute-time.Second, 8*time.Hour, distrusted), statePropagating},
		{"of a CA that was distrusted", own(2*time.Minute, 8*time.Hour, distrusted), stateStale},
		{"of another CA, or for another Service", own(9*time.Hour, 8*time.Hour, foreign), stateForeign},
		{"evaluated with another bundle or generation", own(9*time.Hour, 8*time.Hour, otherTrust), statePending},
		{"asked for other names", own(9*time.Hour, 8*time.Hour, otherNames), statePending},
		{"dialled for a Secret", showed(rotatortest.Leaf(1), time.Hour), statePending},
		{"no TLS", probe.Answer{Kind: probe.Plaintext}, statePlaintext},
		{"not dialled", probe.Answer{Kind: probe.NotVerified}, stateNotVerified},
		{"unreachable", noAnswerFor(time.Minute, time.Hour), stateUnreachable},
		{"unreachable just now", noAnswerFor(testPace.confirmAfter()-time.Nanosecond, time.Hour), statePending},
		{"unreachable for long enough", noAnswerFor(testPace.confirmAfter(), time.Hour), stateUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, trustOfNow.state(tt.a, demandedOfWeb, testPace)) })
	}
}

// podKeyPod is a ready pod of a Deployment with its own key in place of a Secret.
func podKeyPod(name, workload string, changes ...rotatortest.Change) *pods.Facts {
	key := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}},
		}}}}
	}
	return readyPod(name, workload, rotatortest.All(append([]rotatortest.Change{key}, changes...)...))
}

// withPodKeys is a Service whose pods have their own keys.
func withPodKeys(name string, kept ...string) *corev1.Service {
	svc := rotatortest.Asking(name, map[string]string{"app": "web"}, 8443)
	svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonPodKeys, Message: "each pod makes its key"}
	svc.Status.Conditions = state.Say(ready, state.Ready{Names: []string{"*." + name + ".shop.svc", name + ".shop.svc"}, Kept: kept}).Both()
	return svc
}

// keeping returns the conditions of the Service, which keeps the Secret too.
func keeping(svc *corev1.Service, kept string) []metav1.Condition {
	return state.Say(*api.Condition(svc, api.ConditionReady), state.ReadyOf(svc).WithKept([]string{kept})).Both()
}

// podKeysAt is the situation of pods with their own keys.
func podKeysAt(after time.Duration, services []*corev1.Service, consumers ...consumer) PodKeySituation {
	s := PodKeySituation{Common: lookAt(after, nil, consumers...).Common, Trust: probe.Trust{ID: trustOfNow.id, Since: rotatortest.Noon}}
	s.Services, s.KeyState.certificate, s.KeyState.trusted = services, certificate{}, trustOfNow
	return s
}

func conditionOf(t *testing.T, d Decision) *state.Condition {
	t.Helper()
	require.Len(t, d.Conditions, 1)
	require.NotNil(t, d.Conditions[0].Want)
	return d.Conditions[0].Want
}

func TestDecidePodKeys(t *testing.T) {
	restart := rotatortest.Annotation(api.AnnotationOnRotate, "restart")
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(rotatortest.Noon.Add(9 * time.Hour)) }
	now := 10 * time.Hour
	current, overdue := own(now, 20*time.Hour), own(now, 8*time.Hour)
	svc := withPodKeys("web")
	d := podKeysAt(now, []*corev1.Service{svc},
		asked(podKeyPod("a", "web"), current), asked(podKeyPod("b", "web", restart), overdue), asked(podKeyPod("c", "web", restart), own(now, 7*time.Hour)),
		asked(podKeyPod("d", "web", younger), overdue)).Decide()
	assert.Equal(t, map[State]int{stateCurrent: 1, stateStale: 3}, d.States)
	want := conditionOf(t, d)
	assert.Equal(t, api.ServingStale, want.Reason)
	assert.Equal(t, "a certificate that should have been replaced is still served by Deployment web: restart workloads that do not reload their files, or annotate their pod template servingcert.dev/on-rotate: restart to have that done automatically", want.Message)
	require.Len(t, d.Stale, 2)
	assert.Equal(t, StaleWorkload{
		Workload: deploymentNamed("web"), Key: pods.PodKey, Since: rotatortest.Noon.Add(7*time.Hour + 5*time.Minute), OnRotate: api.OnRotateRestart,
		Pods: 2, Pod: "b", PodUID: "uid-of-b", Service: "web", ServiceUID: "uid-of-web", Services: []string{"web"},
	}, d.Stale[1])
	assert.Equal(t, "2 pods (b among them) serve a certificate that should have been replaced by 2026-05-01 19:05:00 UTC", d.Stale[1].Note())
	assert.True(t, d.Stale[0].ReadsOtherFiles, "a pod that is younger than what it should have replaced")
	assert.Len(t, d.Notify, 2)

	s := podKeysAt(now, []*corev1.Service{svc}, asked(podKeyPod("b", "web", restart), overdue))
	s.KeyState.notified = d.KeyState.notified
	again := s.Decide()
	assert.Empty(t, again.Notify, "each is reported once")
	assert.Len(t, again.KeyState.notified, 1, "and the next certificate of the other is reported again")
}

func TestDistrustedPodKeys(t *testing.T) {
	svc := withPodKeys("web")
	d := podKeysAt(10*time.Minute, []*corev1.Service{svc}, asked(podKeyPod("a", "web", rotatortest.Annotation(api.AnnotationOnRotate, "restart")), own(9*time.Minute, 8*time.Hour, distrusted))).Decide()
	want := conditionOf(t, d)
	assert.Equal(t, api.ServingStale, want.Reason)
	assert.Contains(t, want.Message, "; clients no longer accept the CA of some of them, and only a new pod gets another certificate")
	require.Len(t, d.Stale, 1)
	assert.True(t, d.Stale[0].Distrusted)
	assert.Equal(t, rotatortest.Noon, d.Stale[0].Since)
	assert.Equal(t, "pod a serves a certificate that clients have not accepted since 2026-05-01 12:00:00 UTC", d.Stale[0].Note())
}

// A pod may show several certificates, and a distrusted one may have been overdue before.
func TestPodKeyStaleSince(t *testing.T) {
	at := func(port uint16) func(*probe.Answer) { return func(a *probe.Answer) { a.Port = port } }
	since := func(answers ...probe.Answer) (time.Duration, bool) {
		c := consumerOf(nil)
		c.answers = answers
		c.endpoint.demanded = map[uint16]probe.Demand{8443: demandedOfWeb, 9443: demandedOfWeb}
		since, distrusted := trustOfNow.overdue(c, testPace)
		return since.Sub(rotatortest.Noon), distrusted
	}
	const now = 10 * time.Hour
	for _, tt := range []struct {
		name       string
		answers    []probe.Answer
		want       time.Duration
		distrusted bool
	}{
		{"overdue", []probe.Answer{own(now, 8*time.Hour, at(8443))}, 8*time.Hour + 5*time.Minute, false},
		{"overdue, and then distrusted", []probe.Answer{own(now, -time.Hour, at(8443), distrusted)}, -55 * time.Minute, false},
		{"distrusted", []probe.Answer{own(now, 20*time.Hour, at(8443), distrusted)}, 0, true},
		{"two", []probe.Answer{own(now, 8*time.Hour, at(8443)), own(now, 7*time.Hour, at(9443))}, 7*time.Hour + 5*time.Minute, false},
		{"two, the first first", []probe.Answer{own(now, 7*time.Hour, at(8443)), own(now, 8*time.Hour, at(9443))}, 7*time.Hour + 5*time.Minute, false},
		{"one distrusted, one overdue", []probe.Answer{own(now, 20*time.Hour, at(8443), distrusted), own(now, 8*time.Hour, at(9443))}, 0, true},
		{"one overdue, one current", []probe.Answer{own(now, 8*time.Hour, at(8443)), own(now, 20*time.Hour, at(9443))}, 8*time.Hour + 5*time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, distrusted := since(tt.answers...)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.distrusted, distrusted)
		})
	}
}

func TestPodKeyConditions(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	otherApp := rotatortest.Label("app", "other")
	said := withPodKeys("web")
	said.Status.Conditions = append(said.Status.Conditions, state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "said"},
		state.Serving{Ports: api.NeedsHash(said)}).Both()...)
	issued := withPodKeys("web") // its signer has not seen the annotation
	issued.Status.Conditions = rotatortest.Ready("web", rotatortest.Leaf(1)).Status.Conditions
	refused := withPodKeys("web")
	refused.Status.Conditions[0].Status, refused.Status.Conditions[0].Reason, refused.Status.Conditions[0].Message = metav1.ConditionFalse, "InvalidAnnotation", "no"
	failed := rotatortest.Ready("web", "") // with a Secret, whose decision says what there is to say
	back := rotatortest.Ready("web", rotatortest.Leaf(2))
	back.Status.Conditions = keeping(back, "old-tls")
	unnamed := func(a *probe.Answer) { a.PodKey.Demanded.Names = "" }
	tests := []struct {
		name     string
		svc      *corev1.Service
		consumer []consumer
		reason   string // empty: nothing is written
	}{
		{"current", withPodKeys("web"), []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour))}, api.ServingCurrent},
		{"of an older generation", withPodKeys("web"), []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour, byOlder))}, api.ServingPropagating},
		{"foreign", withPodKeys("web"), []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour, foreign))}, api.ServingForeign},
		{"no pod", withPodKeys("web"), nil, api.ServingNoConsumers},
		{"no ready pod", withPodKeys("web"), []consumer{asked(podKeyPod("a", "web", unready))}, api.ServingNoConsumers},
		{"a pod that it does not select", withPodKeys("web"), []consumer{asked(podKeyPod("a", "web", otherApp), own(0, time.Hour))}, api.ServingNoConsumers},
		{"not dialled since the CA changed", said, []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour, otherTrust))}, ""},
		{"the signer has not said that pods make their keys", issued, []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour))}, ""},
		{"a Service with a Secret that has failed", failed, []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour))}, ""},
		{"a Service with a Secret that keeps another", back, []consumer{asked(readyPod("a", "web", rotatortest.SecretVolume("old-tls")), own(0, time.Hour))}, ""},
		{"its annotations are refused now", refused, []consumer{asked(podKeyPod("a", "web"), own(0, time.Hour, unnamed))}, api.ServingCurrent},
		{"a pod with the Secret from before", withPodKeys("web", "web-tls"), []consumer{asked(readyPod("a", "web"), own(0, time.Hour))}, api.ServingCurrent},
		{"a pod with a Secret that it never had", withPodKeys("web", "x-tls"), []consumer{asked(readyPod("a", "web"), own(0, time.Hour))}, api.ServingNoConsumers},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := podKeysAt(time.Minute, []*corev1.Service{tt.svc}, tt.consumer...).Decide()
			if tt.reason == "" {
				assert.Empty(t, d.Conditions)
				return
			}
			assert.Equal(t, tt.reason, conditionOf(t, d).Reason)
		})
	}
}

func TestPodKeyTargets(t *testing.T) {
	web, old := withPodKeys("web"), rotatortest.Ready("api", rotatortest.Leaf(2))
	waits := withPodKeys("waits")
	waits.Status.Conditions[0].Status = metav1.ConditionFalse
	other := withPodKeys("other")
	other.Spec.Selector = map[string]string{"app": "other"}
	d := podKeysAt(time.Minute, []*corev1.Service{web, old, waits, other}, asked(podKeyPod("a", "web"))).Decide()
	require.Len(t, d.Dial, 1)
	v := d.Dial[0]
	assert.Equal(t, pods.PodKey, v.Of.Key)
	assert.Equal(t, []string{"web.shop.svc", "api.shop.svc", "waits.shop.svc"}, v.Names)
	assert.Equal(t, &probe.PodKeyRequirements{Demanded: map[uint16]probe.Demand{8443: {Names: "api.shop.svc,web.shop.svc"}}}, v.PodKey, "without wildcards, and without a Service that is not ready")
	assert.Equal(t, []uint16{8443}, v.Ports)
	assert.Empty(t, v.Leaves)
}

// A pod of a StatefulSet has a name of its own below a headless Service.
func TestPodNameIsDemanded(t *testing.T) {
	host := func(hostname, subdomain string) rotatortest.Change {
		return func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = hostname, subdomain }
	}
	web := withPodKeys("web")
	web.Spec.ClusterIP = corev1.ClusterIPNone
	balanced := withPodKeys("balanced")
	long := withPodKeys("web") // its condition does not show all names
	long.Spec.ClusterIP = corev1.ClusterIPNone
	long.Status.Conditions = state.Say(long.Status.Conditions[0], state.Ready{Names: []string{"a.web.shop.svc"}}).Both()
	switched := rotatortest.Ready("web", rotatortest.Leaf(2)) // back to a Secret: the pod still gets its names
	switched.Spec.ClusterIP = corev1.ClusterIPNone
	kept := func(p *corev1.Pod) { p.Spec.Volumes = nil; rotatortest.SecretVolume("web-tls")(p) } // it holds a wildcard
	keeps := withPodKeys("web", "web-tls")
	keeps.Spec.ClusterIP = corev1.ClusterIPNone
	for _, tt := range []struct {
		name string
		svc  *corev1.Service
		pod  []rotatortest.Change
		want string
	}{
		{"of a StatefulSet", web, []rotatortest.Change{host("web-0", "web")}, "web-0.web.shop.svc,web.shop.svc"},
		{"below another Service", web, []rotatortest.Change{host("web-0", "other")}, "web.shop.svc"},
		{"without a hostname", web, []rotatortest.Change{host("", "web")}, "web.shop.svc"},
		{"of a Service with a ClusterIP", balanced, []rotatortest.Change{host("web-0", "balanced")}, "balanced.shop.svc"},
		{"where the condition does not show all names", long, []rotatortest.Change{host("web-0", "web")}, "a.web.shop.svc,web-0.web.shop.svc,web.shop.svc"},
		{"of a Service that has a Secret again", switched, []rotatortest.Change{host("web-0", "web")}, "web-0.web.shop.svc,web.shop.svc"},
		{"with the Secret from before", keeps, []rotatortest.Change{host("web-0", "web"), kept}, "web.shop.svc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := podKeysAt(time.Minute, []*corev1.Service{tt.svc}, asked(podKeyPod("web-0", "web", tt.pod...))).Decide()
			require.Len(t, d.Dial, 1)
			assert.Equal(t, &probe.PodKeyRequirements{Demanded: map[uint16]probe.Demand{8443: {Names: tt.want}}}, d.Dial[0].PodKey)
		})
	}
}

// Another signer's certificate is demanded only where all Services of the port have it, and its pods count for no Service
// that has ours.
func TestPodKeysOfAnotherSigner(t *testing.T) {
	of := func(signer string) rotatortest.Change {
		return func(p *corev1.Pod) { p.Spec.Volumes[0].Projected.Sources[0].PodCertificate.SignerName = signer }
	}
	theirs := of("example.com/serving")
	external := func(name string) *corev1.Service {
		svc := withPodKeys(name)
		svc.Annotations[api.AnnotationIssuer] = string(api.IssuerExternal)
		svc.Status.Conditions[0].Reason = api.ReasonExternal
		return svc
	}
	otherOwn := func(a *probe.Answer) { a.PodKey.Demanded.Other = true }
	d := podKeysAt(time.Minute, []*corev1.Service{external("web")}, asked(podKeyPod("a", "web", theirs), own(0, time.Hour, otherOwn))).Decide()
	got := conditionOf(t, d)
	assert.Equal(t, []any{metav1.ConditionTrue, api.ServingCurrent}, []any{got.Status, got.Reason})
	assert.Contains(t, got.Message, "who issued it is not verified")

	headless, inSet := external("web"), func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "web-0", "web" }
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	for name, c := range map[string]struct {
		services []*corev1.Service
		pod      *pods.Facts
		want     map[uint16]probe.Demand // nil: not dialled
	}{
		"theirs":                         {[]*corev1.Service{external("web")}, podKeyPod("a", "web", theirs), map[uint16]probe.Demand{8443: {Names: "web.shop.svc", Other: true}}},
		"theirs, of a Service with ours": {[]*corev1.Service{withPodKeys("web")}, podKeyPod("a", "web", theirs), nil},
		"ours, of a Service with theirs": {[]*corev1.Service{external("web")}, podKeyPod("a", "web"), nil},
		"an identity":                    {[]*corev1.Service{external("web")}, podKeyPod("a", "web", of(api.ClientSignerName)), nil},
		"theirs, of a StatefulSet":       {[]*corev1.Service{headless}, podKeyPod("web-0", "web", theirs, inSet), map[uint16]probe.Demand{8443: {Names: "web-0.web.shop.svc,web.shop.svc", Other: true}}},
		"theirs, of Services with both":  {[]*corev1.Service{external("web"), withPodKeys("api")}, podKeyPod("a", "web", theirs), map[uint16]probe.Demand{8443: {Names: "web.shop.svc", Other: true}}},
	} {
		d := podKeysAt(time.Minute, c.services, asked(c.pod)).Decide()
		if c.want == nil {
			assert.Empty(t, d.Dial, name)
			continue
		}
		require.Len(t, d.Dial, 1, name)
		assert.Equal(t, c.want, d.Dial[0].PodKey.Demanded, name)
	}
	for _, svc := range []*corev1.Service{external("web"), withPodKeys("web")} {
		svc.UID = "web"
		pod := podKeyPod("a", "web", theirs)
		found := Keyless([]*corev1.Service{svc}, func() []*pods.Facts { return []*pods.Facts{pod} })
		assert.Equal(t, !api.IsExternal(svc), found[svc.UID] != "", "%s", svc.Annotations)
	}
}

// Two containers of a pod may serve two Services, one of them with a Secret.
func TestDemandedNamesByPort(t *testing.T) {
	web, api := withPodKeys("web"), withPodKeys("api")
	api.Spec.Ports[0].TargetPort = intstr.FromInt32(9443)
	both := withPodKeys("both")
	both.Spec.Ports = append(both.Spec.Ports, api.Spec.Ports...)
	d := podKeysAt(time.Minute, []*corev1.Service{web, api, both}, asked(podKeyPod("a", "web"))).Decide()
	require.Len(t, d.Dial, 1)
	assert.Equal(t, []uint16{8443, 9443}, d.Dial[0].Ports)
	assert.Equal(t, map[uint16]probe.Demand{8443: {Names: "both.shop.svc,web.shop.svc"}, 9443: {Names: "api.shop.svc,both.shop.svc"}}, d.Dial[0].PodKey.Demanded)
}

func TestPodsOfBothKindsBehindOneService(t *testing.T) {
	back := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon) // switched back to a Secret
	now := 3 * time.Minute
	question := func(a *probe.Answer) { a.PodKey.Demanded.Names = "web.shop.svc" }
	for _, tt := range []struct {
		name      string
		own       probe.Answer
		ofSecret  probe.Answer
		want, say string
	}{
		{"both as they should be", own(now, time.Hour, question), showed(rotatortest.Leaf(2), now), api.ServingCurrent, `every ready pod of this Service that mounts Secret "web-tls" serves its certificate`},
		{"the pod's own is overdue", own(now, -time.Hour, question), showed(rotatortest.Leaf(2), now), api.ServingStale, "a certificate that should have been replaced is still served by Deployment own: "},
		{"the Secret's is old", own(now, time.Hour, question), showed(rotatortest.Leaf(1), now), api.ServingStale, `an older certificate than the one in Secret "web-tls" is still served by Deployment web: `},
		{"both", own(now, -time.Hour, question), showed(rotatortest.Leaf(1), now), api.ServingStale, `an older certificate than the one in Secret "web-tls" is still served by Deployment own, Deployment web: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			podKeys := podKeysAt(now, []*corev1.Service{back}, asked(podKeyPod("o", "own"), tt.own)).Decide()
			assert.Empty(t, podKeys.Conditions, "set by the decision about the Secret")
			s := lookAt(now, back, asked(readyPod("a", "web"), tt.ofSecret))
			s.PodKeys = podKeys.Seen
			want := conditionOf(t, s.Decide())
			assert.Equal(t, tt.want, want.Reason)
			assert.Contains(t, want.Message, tt.say)
			assert.Contains(t, want.State, rotatortest.Leaf(2))
		})
	}
}

// A pod may mount a Secret beside its own key. It is evaluated once.
func TestPodWithOwnKeyAndSecretIsCountedOnce(t *testing.T) {
	now := 3 * time.Minute
	beside := rotatortest.SecretVolume("web-tls")
	answer := own(now, time.Hour, func(a *probe.Answer) { a.PodKey.Demanded.Names = "api.shop.svc,web.shop.svc" })
	pod := func(changes ...rotatortest.Change) consumer {
		return asked(podKeyPod("a", "web", append(changes, beside)...), answer)
	}
	web, asks := withPodKeys("web"), rotatortest.Serves(rotatortest.Ready("api", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon)
	podKeys := podKeysAt(now, []*corev1.Service{web, asks}, pod()).Decide()
	assert.Equal(t, map[State]int{stateCurrent: 1}, podKeys.States)

	s := lookAt(now, asks, pod())
	s.PodKeys = podKeys.Seen
	d := s.Decide()
	assert.Empty(t, d.States)
	assert.Empty(t, d.Dial)
	assert.Equal(t, api.ServingCurrent, conditionOf(t, d).Reason)

	t.Run("that its Service does not select", func(t *testing.T) {
		d := lookAt(now, asks, pod(rotatortest.Label("app", "other"))).Decide()
		assert.Len(t, d.States, 1, "it is known by the Secret that it mounts")
	})
	t.Run("of a Service that no longer asks", func(t *testing.T) {
		retained := rotatortest.Ready("web", rotatortest.Leaf(2))
		delete(retained.Annotations, api.AnnotationSecretName)
		retained.Status.Conditions[0].Reason = api.ReasonRetained
		d := lookAt(now, retained, pod()).Decide()
		assert.Len(t, d.States, 1, "whose pods are not among those with keys of their own")
	})
}

// Two Services share a Secret, and one of them requests pods' own keys: the pods that mount the
// Secret are observed for both.
func TestPodWithSharedKeptSecretIsCountedOnce(t *testing.T) {
	now := 10 * time.Hour
	web := withPodKeys("web", "web-tls")
	old := own(now, 8*time.Hour, func(a *probe.Answer) { a.NotAfter = rotatortest.Noon.Add(11 * time.Hour) })
	s := podKeysAt(now, []*corev1.Service{web}, asked(readyPod("a", "web"), old))
	alone := s.Decide()
	assert.Equal(t, map[State]int{stateStale: 1}, alone.States)
	assert.Len(t, alone.Notify, 1)
	assert.Equal(t, old.NotAfter, alone.NotAfter)

	s.Shared = map[string]bool{"web-tls": true}
	shared := s.Decide()
	assert.Empty(t, shared.States, "it is counted with the Secret")
	assert.Empty(t, shared.Notify, "and reported with it")
	assert.Zero(t, shared.NotAfter)
	assert.Equal(t, alone.Stale, shared.Stale, "but what this Service's condition is about is listed")
	assert.Equal(t, alone.Conditions, shared.Conditions)

	s.Shared = map[string]bool{"x-tls": true}
	assert.Equal(t, alone.States, s.Decide().States, "another Secret")

	kept, ownOld := asked(readyPod("k", "web"), old), asked(podKeyPod("o", "web"), old)
	for _, both := range [][]consumer{{kept, ownOld}, {ownOld, kept}} { // a rollout of one workload
		s = podKeysAt(now, []*corev1.Service{web}, both...)
		s.Shared = map[string]bool{"web-tls": true}
		assert.Len(t, s.Decide().Notify, 1)
		assert.Equal(t, 2, s.Decide().Stale[0].Pods)
	}
	s = podKeysAt(now, []*corev1.Service{web}, asked(readyPod("k", "web"), own(now, 20*time.Hour, byOlder)), ownOld)
	s.Shared = map[string]bool{"web-tls": true}
	assert.Empty(t, s.Decide().Notify, "not before all have been replaced or are overdue")

	s = podKeysAt(now, []*corev1.Service{web}, asked(readyPod("k", "web", func(p *corev1.Pod) { p.Status.Conditions = nil })))
	s.Shared, s.KeyState.lacking = map[string]bool{"web-tls": true}, map[types.UID]time.Time{web.UID: rotatortest.Noon}
	assert.Equal(t, api.ServingNoConsumers, conditionOf(t, s.Decide()).Reason)
	assert.Equal(t, s.KeyState.lacking, s.Decide().KeyState.lacking)
	s = podKeysAt(now, []*corev1.Service{web}, asked(podKeyPod("a", "web", rotatortest.SecretVolume("web-tls")), old))
	s.Shared = map[string]bool{"web-tls": true}
	assert.Equal(t, alone.States, s.Decide().States, "a pod with a key of its own, which is not counted with the Secret")
}

// Each pod of a StatefulSet has its own template, by its label and its name.
func TestSeenOfStatefulSetIsSorted(t *testing.T) {
	pod := func(name string, a probe.Answer) consumer {
		return asked(podKeyPod(name, "web", rotatortest.Label("apps.kubernetes.io/pod-index", name)), a)
	}
	a, b := pod("a", own(0, time.Hour)), pod("b", own(0, time.Hour, byOlder))
	services := []*corev1.Service{withPodKeys("web")}
	one, other := podKeysAt(0, services, a, b).Decide().Seen, podKeysAt(0, services, b, a).Decide().Seen
	assert.True(t, one.Equal(other))
	assert.False(t, one.Equal(podKeysAt(0, services, a).Decide().Seen))
}

func TestRefreshDelays(t *testing.T) {
	now, services := 10*time.Hour, []*corev1.Service{withPodKeys("web")}
	refreshed := func(after time.Duration) func(*probe.Answer) { // another leaf, issued that long after noon
		return func(a *probe.Answer) {
			a.Leaf, a.NotBefore = rotatortest.Leaf(8), rotatortest.Noon.Add(after-2*time.Minute)
		}
	}
	first := podKeysAt(now, services, asked(podKeyPod("a", "web"), own(time.Hour, 8*time.Hour))).Decide()
	assert.Empty(t, first.RefreshDelays, "nothing was known of the pod")
	look := func(pod *pods.Facts, a probe.Answer) Decision {
		s := podKeysAt(now, services, asked(pod))
		s.KeyState = first.KeyState.Clone()
		s.KeyState.Record(pod.UID, []probe.Answer{a})
		return s.Decide()
	}
	port := func(a *probe.Answer) { a.Port = 8443 }
	late := look(podKeyPod("a", "web"), own(now, 20*time.Hour, port, refreshed(8*time.Hour+3*time.Minute)))
	assert.Equal(t, []time.Duration{3 * time.Minute}, late.RefreshDelays, "by when it was issued, not when it was seen")
	assert.Equal(t, []time.Duration{0}, look(podKeyPod("a", "web"), own(now, 20*time.Hour, port, refreshed(8*time.Hour))).RefreshDelays)
	assert.Empty(t, look(podKeyPod("a", "web"), own(now, 20*time.Hour, port, refreshed(8*time.Hour-time.Second))).RefreshDelays, "the kubelet was restarted")
	assert.Empty(t, look(podKeyPod("a", "web"), own(now, 8*time.Hour, port)).RefreshDelays, "the same as before")
	assert.Empty(t, look(podKeyPod("a", "web"), own(now, 20*time.Hour, port, refreshed(9*time.Hour), foreign)).RefreshDelays, "another's")
	assert.Empty(t, look(podKeyPod("b", "web"), own(now, 20*time.Hour, port, refreshed(9*time.Hour))).RefreshDelays, "another pod")

	s := podKeysAt(now, services, asked(podKeyPod("a", "web")))
	s.KeyState = late.KeyState.Clone()
	assert.Empty(t, s.Decide().RefreshDelays, "each is measured once")

	kept := readyPod("a", "web")
	services = []*corev1.Service{withPodKeys("web", "web-tls")}
	assert.Empty(t, look(kept, own(now, 20*time.Hour, port, refreshed(9*time.Hour))).RefreshDelays, "of a Secret from before")
	unjudged := func(a *probe.Answer) { a.PodKey = nil }
	assert.Empty(t, look(podKeyPod("a", "web"), own(now, 20*time.Hour, port, refreshed(9*time.Hour), unjudged)).RefreshDelays)

	// One of two servers has reloaded its files, at either port.
	for _, ports := range [][2]uint16{{8443, 9443}, {9443, 8443}} {
		svc := withPodKeys("web")
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: 444, TargetPort: intstr.FromInt32(9443)})
		pod := podKeyPod("a", "web")
		s := podKeysAt(now, []*corev1.Service{svc}, asked(pod))
		s.KeyState = first.KeyState.Clone()
		old := own(now, 8*time.Hour, func(a *probe.Answer) { a.Port = ports[0] })
		s.KeyState.Record(pod.UID, []probe.Answer{old, own(now, 20*time.Hour, func(a *probe.Answer) { a.Port = ports[1] }, refreshed(9*time.Hour))})
		assert.Equal(t, []time.Duration{time.Hour}, s.Decide().RefreshDelays)
	}
}

func TestWhenPodKeysAreDialled(t *testing.T) {
	next := func(a probe.Answer) time.Duration {
		c := consumerOf(nil, 8443)
		c.endpoint.demanded = map[uint16]probe.Demand{8443: demandedOfWeb}
		a.Port = 8443
		c.answers = []probe.Answer{a}
		at, ok := c.next(trustOfNow, testPace)
		require.True(t, ok)
		return at.Sub(a.At)
	}
	const interval = time.Hour
	assert.InDelta(t, interval.Minutes(), next(own(time.Hour, 8*time.Hour)).Minutes(), 6)
	assert.InDelta(t, interval.Minutes(), next(own(time.Hour, 8*time.Hour, byOlder)).Minutes(), 6, "it cannot be brought forward")
	assert.InDelta(t, 17*60, next(own(8*time.Hour-10*time.Minute, 8*time.Hour)).Seconds(), 11, "when it is overdue")
	assert.Equal(t, testPace.Pause, next(own(time.Hour, 8*time.Hour, otherTrust)))
	assert.InDelta(t, 15, next(own(8*time.Hour+7*time.Minute, 8*time.Hour)).Seconds(), 5, "soon after it became stale")
	assert.InDelta(t, interval.Minutes(), next(own(12*time.Hour, 8*time.Hour)).Minutes(), 6, "rarely later")
	assert.InDelta(t, 60, next(own(time.Minute, 8*time.Hour, distrusted)).Seconds(), 11, "when its time to propagate is over")
	assert.InDelta(t, interval.Minutes(), next(probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon, Since: rotatortest.Noon}).Minutes(), 6)

	restarted := consumerOf(nil, 8443) // it was not ready in between
	restarted.answers = []probe.Answer{own(time.Hour, 8*time.Hour)}
	restarted.endpoint.demanded = map[uint16]probe.Demand{8443: demandedOfWeb}
	restarted.seen = rotatortest.Noon.Add(time.Hour + time.Minute)
	at, ok := restarted.next(trustOfNow, testPace)
	require.True(t, ok)
	assert.InDelta(t, 60, at.Sub(rotatortest.Noon.Add(time.Hour)).Seconds(), testPace.Pause.Seconds())
}

func TestNoPodKeys(t *testing.T) {
	assert.True(t, podKeysAt(0, []*corev1.Service{rotatortest.Ready("web", rotatortest.Leaf(2))}).Decide().Forget)

	unknown := podKeysAt(0, []*corev1.Service{withPodKeys("web")}, asked(podKeyPod("a", "web"), own(0, time.Hour)))
	unknown.Trust = probe.Trust{}
	d := unknown.Decide()
	assert.Empty(t, d.Dial)
	assert.Empty(t, d.Conditions)
	assert.Len(t, d.KeyState.pods, 1)

	off := podKeysAt(0, []*corev1.Service{withPodKeys("web")})
	off.Off = true
	assert.Empty(t, off.Decide().Conditions, "there was no condition")
	off.Services[0].Status.Conditions = append(off.Services[0].Status.Conditions, metav1.Condition{Type: api.ConditionServing, Reason: api.ServingCurrent})
	assert.Equal(t, api.ServingNotVerified, conditionOf(t, off.Decide()).Reason)
	off.Services = append(off.Services, rotatortest.Serves(rotatortest.Ready("api", rotatortest.Leaf(2)), rotatortest.Leaf(2), rotatortest.Noon))
	assert.Equal(t, "web", off.Decide().Conditions[0].Service.Name)
	assert.Len(t, off.Decide().Conditions, 1, "the other is set by the decision about its Secret")

	switchedBack := rotatortest.Ready("web", rotatortest.Leaf(2))
	switchedBack.Status.Conditions = keeping(switchedBack, "web-tls")
	assert.Empty(t, podKeysAt(0, []*corev1.Service{withPodKeys("other"), switchedBack}, asked(readyPod("a", "web"), own(0, time.Hour))).Decide().States,
		"a pod with a Secret is that Secret's concern")
}

func TestTrustedSince(t *testing.T) {
	trust := probe.Trust{ID: "x", Since: rotatortest.Noon}
	now := rotatortest.Noon.Add(time.Hour)
	known := trusted{}.follow(trust, now)
	assert.Equal(t, rotatortest.Noon, known.since, "from the status of the CA")
	trust.Since = now
	assert.Equal(t, known, known.follow(trust, now), "another phase of the same")
	assert.Equal(t, now, trusted{}.follow(probe.Trust{ID: "y"}, now).since)
	assert.Equal(t, now, trusted{}.follow(probe.Trust{ID: "y", Since: now.Add(time.Hour)}, now).since)
}
