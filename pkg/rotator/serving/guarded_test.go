package serving

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const proxyPort = "sc-any-8080"

// guardedBy gives a pod a proxy at port 15444 with a list; without one the proxy reads none.
func guardedBy(list string) rotatortest.Change {
	return func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		c := corev1.Container{
			Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=" + proxyPort + "=15444:8080"},
			Ports: []corev1.ContainerPort{{Name: proxyPort, ContainerPort: 15444}},
		}
		if list != "" {
			c.Args = append(c.Args, api.ProxyFlagClients+"=/etc/clients")
			p.Annotations[api.AnnotationAdmits] = list
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// tried is the answer of a guarded port at which strangers have tried.
func tried(after time.Duration, g probe.Guarding) probe.Answer {
	a := atPort(15444, showed(rotatortest.Leaf(2), after))
	g.Leaf, g.Admits = rotatortest.Leaf(2), idOf(g.Admits)
	if g.At.IsZero() {
		g.At = a.At
	}
	if g.Since.IsZero() {
		g.Since = g.At
	}
	a.Guarding = &g
	return a
}

// idOf is how a Guarding names a list.
func idOf(list string) string {
	sum := sha256.Sum256([]byte(list))
	return hex.EncodeToString(sum[:16])
}

func guardedService(clients string) *corev1.Service {
	svc := offers("web", "https", proxyPort)
	svc.Annotations[api.AnnotationClients] = clients
	return svc
}

func TestGuardedCondition(t *testing.T) {
	const late = 3 * time.Minute
	list := proxyPort + "=shop/cart"
	has := func(svc *corev1.Service, reason string) *corev1.Service {
		c := metav1.Condition{Type: api.ConditionGuarded, Status: metav1.ConditionTrue, Reason: reason}
		svc.Status.Conditions = append(svc.Status.Conditions, state.Say(c, state.Guarded{Of: api.GuardHash(svc)}).Both()...)
		return svc
	}
	refuses := tried(late, probe.Guarding{Judgement: probe.Refused, Admits: list})
	admits := tried(late, probe.Guarding{Judgement: probe.Admitted, Stranger: probe.Forged, Admits: list})
	of := func(name, list string, answers ...probe.Answer) consumer {
		return asked(readyPod(name, "web", guardedBy(list)), answers...)
	}
	plain := guardedService("shop/cart")
	plain.Spec.Ports = append(plain.Spec.Ports, corev1.ServicePort{Name: "tls-b", Port: 9443, TargetPort: offers("x", "tls", 9443).Spec.Ports[0].TargetPort})
	past := func(target intstr.IntOrString) *corev1.Service {
		svc := guardedService("shop/cart")
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "http", Port: 80, TargetPort: target})
		return svc
	}
	unready := asked(readyPod("a", "web", guardedBy(list), func(p *corev1.Pod) { p.Status.Conditions = nil }))
	silent := tried(late, probe.Guarding{Stranger: probe.NoCertificate, Cause: probe.CauseTimeout, Admits: list, Since: rotatortest.Noon})
	backdoor, padded := proxyPort+"=evil/backdoor", list+";"+strings.Repeat("x", api.MaxAdmits)
	relisted, reselected := has(guardedService("shop/*"), api.GuardedRefusing), has(guardedService("shop/cart"), api.GuardedRefusing)
	relisted.Annotations[api.AnnotationClients] = "shop/cart"
	reselected.Spec.Selector = map[string]string{"app.kubernetes.io/name": "web"}
	outside := tried(late, probe.Guarding{Stranger: probe.NoCertificate, Cause: probe.CauseOutside, Admits: list})
	never := probe.Answer{Port: 15444, Kind: probe.NotVerified, Cause: probe.CauseOutside, At: rotatortest.Noon}
	published, everywhere := guardedService("shop/cart"), guardedService("shop/cart")
	published.Spec.PublishNotReadyAddresses, everywhere.Spec.Selector = true, nil
	var unlisted = offers("web", "https", proxyPort)
	for name, tt := range map[string]struct {
		svc    *corev1.Service
		pods   []consumer
		reason string // "-": no update; empty: the condition is removed
		text   string
	}{
		"refused":                      {guardedService("shop/cart"), []consumer{of("a", list, refuses), of("b", list, refuses)}, api.GuardedRefusing, "every ready pod"},
		"one admits":                   {guardedService("shop/cart"), []consumer{of("c", list, admits), of("b", list, admits), of("a", list, refuses)}, api.GuardedAdmits, "port 15444 of pod b admitted a client with a forged certificate"},
		"older than the trust domain":  {guardedService("shop/cart"), []consumer{of("a", list, refuses), of("b", "", atPort(15444, showed(rotatortest.Leaf(2), late)))}, api.GuardedNoList, "Deployment web"},
		"the list opens the port":      {guardedService("shop/cart"), []consumer{of("a", proxyPort+"=open", refuses)}, api.GuardedNoList, ""},
		"no proxy":                     {plain, []consumer{of("a", list, refuses)}, api.GuardedNoProxy, "9443"},
		"plaintext past the proxy":     {past(intstr.FromInt32(8080)), []consumer{of("a", list, refuses)}, api.GuardedNoProxy, "8080"},
		"plaintext, by a name":         {past(intstr.FromString("http")), []consumer{of("a", list, refuses)}, api.GuardedNoProxy, "http"},
		"watch, of the Service":        {guardedService("shop/cart, watch"), []consumer{of("a", list, refuses)}, api.GuardedWatch, ""},
		"watch, of the pod":            {guardedService("shop/cart"), []consumer{of("a", proxyPort+"=shop/cart,watch")}, api.GuardedWatch, ""},
		"not seen":                     {guardedService("shop/cart"), []consumer{of("a", list, refuses), of("b", list, silent)}, api.GuardedNotSeen, "without an alert about the client's certificate (timeout)"},
		"not seen for a moment":        {guardedService("shop/cart"), []consumer{of("a", list, tried(late, probe.Guarding{Cause: probe.CauseReset, Admits: list}))}, api.GuardedPending, ""},
		"of an earlier list":           {guardedService("shop/cart"), []consumer{of("a", proxyPort+"=shop/*", refuses)}, api.GuardedPending, ""},
		"of an earlier list, was True": {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", proxyPort+"=shop/*", refuses)}, api.GuardedPending, "Deployment web"},
		"not that of the Service":      {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", backdoor, tried(late, probe.Guarding{Judgement: probe.Refused, Admits: backdoor}))}, api.GuardedPending, "Deployment web"},
		"padded":                       {guardedService("shop/cart"), []consumer{of("a", padded, tried(late, probe.Guarding{Judgement: probe.Refused, Admits: padded}))}, api.GuardedPending, ""},
		"of now, was True":             {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", list)}, "-", ""},
		"True was of another list":     {relisted, []consumer{of("a", list)}, api.GuardedPending, "not every pod"},
		"True was of another selector": {reselected, []consumer{of("a", list)}, api.GuardedPending, "not every pod"},
		"it is not dialled":            {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", list, outside)}, api.GuardedNotSeen, "outside --pod-cidrs"},
		"it was never dialled":         {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", list, never)}, api.GuardedNotSeen, "outside --pod-cidrs"},
		"refused long ago":             {has(guardedService("shop/cart"), api.GuardedRefusing), []consumer{of("a", list, tried(late-3*testPace.Interval, probe.Guarding{Judgement: probe.Refused, Admits: list}))}, api.GuardedNotSeen, ""},
		"not ready, but published":     {published, []consumer{of("a", list, refuses), unready}, api.GuardedNotSeen, "publishNotReadyAddresses"},
		"without a selector":           {everywhere, []consumer{of("a", list, refuses)}, api.GuardedNotSeen, "no selector"},
		"of an earlier list, watched":  {has(guardedService("shop/cart"), api.GuardedWatch), []consumer{of("a", proxyPort+"=shop/*", refuses)}, api.GuardedPending, ""},
		"a new pod":                    {guardedService("shop/cart"), []consumer{of("a", list, refuses), {pod: readyPod("b", "web", guardedBy(list)), seen: rotatortest.Noon.Add(late)}}, api.GuardedRefusing, ""},
		"only a new pod":               {guardedService("shop/cart"), []consumer{{pod: readyPod("b", "web", guardedBy(list)), seen: rotatortest.Noon.Add(late)}}, api.GuardedPending, ""},
		"no ready pod":                 {guardedService("shop/cart"), []consumer{unready}, api.GuardedPending, ""},
		"a list that is not valid":     {guardedService("nonsense"), []consumer{of("a", proxyPort+"=", tried(late, probe.Guarding{Judgement: probe.Refused, Admits: proxyPort + "="}))}, api.GuardedRefusing, ""},
		"no list":                      {has(unlisted, api.GuardedRefusing), []consumer{of("a", list, refuses)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := inProtocol(lookAt(late, tt.svc, tt.pods...)).Decide()
			if tt.reason == "-" {
				assert.Empty(t, d.Guarded)
				return
			}
			require.Len(t, d.Guarded, 1)
			if tt.reason == "" {
				assert.Nil(t, d.Guarded[0].Want)
				return
			}
			got := d.Guarded[0].Want
			assert.Equal(t, tt.reason, got.Reason, got.Message)
			assert.Contains(t, got.Message, tt.text)
			status := map[string]metav1.ConditionStatus{api.GuardedRefusing: metav1.ConditionTrue, api.GuardedNotSeen: metav1.ConditionUnknown, api.GuardedPending: metav1.ConditionUnknown}[tt.reason]
			if status == "" {
				status = metav1.ConditionFalse
			}
			assert.Equal(t, status, got.Status)
		})
	}
}

// Of one pod, the port that another template of the same workload lacks a list for counts; and a pod that mounts no key
// keeps the condition from being True.
func TestGuardedOfPodsThatAreNotDialled(t *testing.T) {
	const late = 3 * time.Minute
	list := proxyPort + "=shop/cart"
	svc := guardedService("shop/cart")
	s := inProtocol(lookAt(late, svc, asked(readyPod("a", "web", guardedBy(list)), tried(late, probe.Guarding{Judgement: probe.Refused, Admits: list}))))
	s.Keyless = Keyless([]*corev1.Service{svc}, func() []*pods.Facts {
		return []*pods.Facts{pods.FactsOf(rotatortest.Pod(rotatortest.Label("app", "web"), rotatortest.WithPort, rotatortest.Declares(proxyPort, 15444)))}
	})
	require.NotEmpty(t, s.Keyless)
	assert.Equal(t, api.GuardedNotSeen, s.Decide().Guarded[0].Want.Reason)
	s.Keyless = nil
	require.Equal(t, api.GuardedRefusing, s.Decide().Guarded[0].Want.Reason)

	ready := state.ReadyOf(svc)
	ready.Kept = []string{"old-tls"}
	old := svc.DeepCopy()
	old.Status.Conditions = state.Say(*api.Condition(svc, api.ConditionReady), ready).Both()
	mounts := pods.FactsOf(rotatortest.Pod(rotatortest.Label("app", "web"), rotatortest.WithPort, rotatortest.Declares(proxyPort, 15444), rotatortest.SecretVolume("old-tls")))
	all := func() []*pods.Facts { return []*pods.Facts{mounts} }
	require.Empty(t, Keyless([]*corev1.Service{old}, all), "it has a key of the Service")
	s.OnlyKept = OnlyKept([]*corev1.Service{old}, all)
	assert.Equal(t, api.GuardedNotSeen, s.Decide().Guarded[0].Want.Reason, "but may be older than the list")
	s.Off = true
	assert.Empty(t, s.Decide().Guarded, "there is none to correct")
}

// Strangers try after a change of the list, until they are refused, and then once an interval.
func TestWhenStrangersTry(t *testing.T) {
	list := proxyPort + "=monitoring/*,shop/cart"
	decide := func(after time.Duration, change func(*podState), answers ...probe.Answer) Decision {
		s := inProtocol(lookAt(after, guardedService("monitoring/*, shop/cart"), asked(readyPod("a", "web", guardedBy(list)), answers...)))
		for _, known := range s.KeyState.pods {
			change(known)
		}
		return s.Decide()
	}
	none := func(*podState) {}
	refused := probe.Guarding{Judgement: probe.Refused, Admits: list}
	first := decide(time.Minute, none)
	require.Len(t, first.Dial, 1)
	want := probe.Guard{Plaintext: true, Listed: pki.SPIFFEID{Namespace: "monitoring", ServiceAccount: "default"}, Admits: idOf(list)}
	assert.Equal(t, map[uint16]probe.Guard{15444: want}, first.Dial[0].Guards)
	assert.Empty(t, decide(time.Minute, none, tried(0, refused)).Dial, "they were refused")
	again := decide(2*testPace.Interval, none, tried(0, refused))
	assert.Equal(t, want, again.Dial[0].Guards[15444])
	other := refused
	other.Admits = proxyPort + "=shop/cart"
	assert.Len(t, decide(time.Minute, none, tried(0, other)).Dial, 1, "the list has changed")
	assert.Empty(t, decide(testPace.Pause/2, none, tried(0, other)).Dial, "a list that changes every second costs one dial a pause")
	back := decide(time.Minute, func(known *podState) { known.admitsSince = rotatortest.Noon.Add(30 * time.Second) }, tried(0, refused))
	assert.Len(t, back.Dial, 1, "there was another list since")
	assert.Equal(t, api.GuardedPending, back.Guarded[0].Want.Reason)
	assert.Empty(t, back.Dial[0].Guards[15444].Leaf)
	admitted := probe.Guarding{Judgement: probe.Admitted, Stranger: probe.NoCertificate, Admits: list}
	changed := func(known *podState) { known.admitsSince = rotatortest.Noon.Add(-time.Second) }
	d := decide(time.Minute, changed, tried(0, admitted))
	assert.Len(t, d.Dial, 1, "the kubelet may not have written the list")
	assert.Equal(t, api.GuardedPending, d.Guarded[0].Want.Reason)
	d = decide(time.Minute, none, tried(0, admitted))
	assert.Equal(t, api.GuardedAdmits, d.Guarded[0].Want.Reason, "a new pod starts with its list")
	assert.Equal(t, map[GuardState]int{guardAdmits: 1}, d.GuardStates)

	renewed := refused
	answer := tried(0, renewed)
	s := inProtocol(lookAt(testPace.Pause, guardedService("any"), asked(readyPod("a", "web", guardedBy(list)), answer)))
	for _, c := range func() []consumer { c, _ := s.consumers(&secret{SecretSituation: &s, certificate: cert2}); return c }() {
		assert.Equal(t, rotatortest.Leaf(2), c.strangers([]uint16{15444}, s.Now, s.Pace)[15444].Leaf, "without a new leaf, no handshake is added")
		c.seen = s.Now
		assert.Empty(t, c.strangers([]uint16{15444}, s.Now, s.Pace)[15444].Leaf, "it was not ready since")

		c.answers = nil
		dials := 0
		for at := rotatortest.Noon; at.Before(rotatortest.Noon.Add(testPace.Interval)); dials++ {
			g := probe.Guarding{Judgement: probe.Admitted, Stranger: probe.Forged, Admits: list}
			if dials%2 == 1 {
				g.Judgement, g.Cause = "", probe.CauseReset
			}
			c.answers = probe.Merge(c.answers, []probe.Answer{tried(at.Sub(rotatortest.Noon), g)})
			at, _ = c.strangersTry(testPace)
		}
		assert.Less(t, dials, 12, "one that admits and resets by turns is dialled less and less often")
	}
}
