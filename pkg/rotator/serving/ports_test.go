package serving

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// offers is a Service with the certificate of cert2 and pairs of port name and target.
func offers(name string, ports ...any) *corev1.Service {
	svc := rotatortest.Ready(name, rotatortest.Leaf(2))
	svc.Spec.Ports = nil
	for i := 0; i < len(ports); i += 2 {
		p := corev1.ServicePort{Name: ports[i].(string), Port: int32(1000 + i), Protocol: corev1.ProtocolTCP}
		switch target := ports[i+1].(type) {
		case int:
			p.TargetPort = intstr.FromInt(target)
		case string:
			p.TargetPort = intstr.FromString(target)
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	return svc
}

// atPort is the answer at another port than 8443.
func atPort(port uint16, a probe.Answer) probe.Answer {
	a.Port = port
	return a
}

// inProtocol sets the protocols of the answers to those of the Services' ports.
func inProtocol(s SecretSituation) SecretSituation {
	for _, pod := range s.Pods {
		protocols := endpointOf(pod.Template.Value(), s.Secret, s.Services).protocols
		for i, a := range s.KeyState.pods[pod.UID].answers {
			s.KeyState.pods[pod.UID].answers[i].Protocol = protocols[a.Port]
		}
	}
	return s
}

// saidOf returns reason and message of the Service's new condition.
func saidOf(t *testing.T, d Decision, name string) (reason, message string) {
	t.Helper()
	for _, c := range d.Conditions {
		if c.Service.Name == name {
			require.NotNil(t, c.Want)
			return c.Want.Reason, c.Want.Message
		}
	}
	return "", ""
}

// A Service is Current if all its TLS ports serve, not if one of them does.
func TestEachTLSPortCounts(t *testing.T) {
	late := 3 * time.Minute
	current, foreign := showed(rotatortest.Leaf(2), late), showed(rotatortest.Leaf(9), late)
	plain := probe.Answer{Port: 8443, Kind: probe.Plaintext, At: rotatortest.Noon.Add(late)}
	silent := noAnswerFor(time.Minute, late)
	one := asked(readyPod("a", "web"), current)
	declares := func(name string, port int32) rotatortest.Change {
		return func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}}})
		}
	}
	var many []any
	for i := range probe.MaxPorts + 1 {
		many = append(many, fmt.Sprintf("https-%d", i), 8443+i)
	}
	var allOfMany []probe.Answer
	for i := range probe.MaxPorts {
		allOfMany = append(allOfMany, atPort(uint16(8443+i), current))
	}
	tests := []struct {
		name   string
		svc    *corev1.Service
		pods   []consumer
		reason string
		text   string
	}{
		{"one port", offers("web", "https", 8443), []consumer{one}, api.ServingCurrent, "every ready pod of this Service that mounts"},
		{"a number that is no port", offers("web", "https", 8443, "tls-b", "sc-tls-99999"), []consumer{one}, api.ServingNoPort,
			`no ready pod of this Service has targetPort sc-tls-99999: must be sc-tls-PORT or sc-any-PORT`},
		{"a number that is no port, of a port that does not say TLS", offers("web", "https", 8443, "b", "sc-tls-99999"), []consumer{one}, api.ServingNoPort, "targetPort sc-tls-99999"},
		{"a misspelt name", offers("web", "https", 8443, "b", "sc-tsl-8080"), []consumer{one}, api.ServingNoPort, "targetPort sc-tsl-8080"},
		{"a misspelt name alone", offers("web", "https", "sc-tsl-8080"), []consumer{one}, api.ServingNoPort, "targetPort sc-tsl-8080"},
		{"a misspelt name beside plaintext", offers("web", "http", 8443, "b", "sc-tsl-8080"), []consumer{one}, api.ServingNoPort, "targetPort sc-tsl-8080"},
		{"a name like that which is the program's", offers("web", "https", 8443, "b", "sc-http"), []consumer{asked(readyPod("a", "web", declares("sc-http", 80)), current)}, api.ServingCurrent, ""},
		{"a proxy that the pods lack", offers("web", "https", 8443, "b", "sc-tls-8080"), []consumer{one}, api.ServingNoPort,
			"no ready pod of this Service has targetPort sc-tls-8080: pods get a proxy at creation: restart them"},
		{"a name that no container declares", offers("web", "https", 8443, "tls", "secure"), []consumer{one}, api.ServingNoPort,
			"has targetPort secure: declare a port of that name in a container, or set the port's number in this Service"},
		{"plaintext at one of two", offers("web", "https", 8443, "tls", 9443), []consumer{asked(readyPod("a", "web"), current, atPort(9443, plain))}, api.ServingPlaintext, "targetPort 9443: the certificate in Secret"},
		{"plaintext at the first of two", offers("web", "https", 8443, "tls", 9443), []consumer{asked(readyPod("a", "web"), plain, atPort(9443, current))}, api.ServingPlaintext, "targetPort 8443: the certificate in Secret"},
		{"another certificate at one of two", offers("web", "https", 8443, "tls", 9443), []consumer{asked(readyPod("a", "web"), current, atPort(9443, foreign))}, api.ServingForeign, "targetPort 9443: "},
		{"no answer at one of two", offers("web", "https", 8443, "tls", 9443), []consumer{asked(readyPod("a", "web"), current, atPort(9443, silent))}, api.ServingUnreachable, "targetPort 9443: "},
		{"both wrong", offers("web", "https", 8443, "tls", 9443), []consumer{asked(readyPod("a", "web"), plain, atPort(9443, plain))}, api.ServingPlaintext, "targetPorts 8443, 9443: "},
		{"one of them in other pods alone", offers("web", "https", 8443, "tls", "b"), []consumer{one, asked(readyPod("b", "web", declares("b", 9443)), current, atPort(9443, current))}, api.ServingCurrent, ""},
		{"not ready where the other is", offers("web", "https", 8443, "tls", "b"), []consumer{one, asked(readyPod("b", "web", declares("b", 9443), func(p *corev1.Pod) { p.Status.Conditions = nil }))}, api.ServingNoPort, "targetPort b"},
		{"no port indicates TLS, one of them serves it", offers("web", "a", 8443, "b", 9443), []consumer{asked(readyPod("a", "web"), current, atPort(9443, plain))}, api.ServingCurrent,
			"; no port of this Service has a name of a TLS port, so one port with TLS is enough: begin the names of TLS ports with https or tls"},
		{"no port indicates TLS, and pods have none", offers("web", "a", "x", "b", "y"), []consumer{one}, api.ServingNoPort, "no ready pod of this Service has targetPort x or y"},
		{"more than are dialled", offers("web", many...), []consumer{asked(readyPod("a", "web"), allOfMany...)}, api.ServingNotVerified, "targetPort 8459: cannot tell whether the certificate in Secret \"web-tls\" is served: not verified: Deployment web: at most 16 ports of a pod are dialled"},
		{"no TCP port", offers("web"), []consumer{one}, api.ServingNoPort, "cannot tell which port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reason, message := saidOf(t, inProtocol(lookAt(late, tt.svc, tt.pods...)).Decide(), "web")
			assert.Equal(t, tt.reason, reason, message)
			assert.Contains(t, message, tt.text)
		})
	}
}

// Services that share a Secret are evaluated by their own ports and pods.
func TestServicesOfOneSecretAreIndependent(t *testing.T) {
	late := 3 * time.Minute
	web, admin, other := offers("web", "https", 8443), offers("admin", "https", 9443), offers("other", "https", 8443)
	other.Spec.Selector = map[string]string{"app": "other"}
	plain := probe.Answer{Port: 9443, Kind: probe.Plaintext, At: rotatortest.Noon.Add(late)}
	s := lookAt(late, web, asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), late), plain))
	s.Services = []*corev1.Service{admin, other, web}
	d := inProtocol(s).Decide()
	for name, want := range map[string]string{"web": api.ServingCurrent, "admin": api.ServingPlaintext, "other": api.ServingNoConsumers} {
		reason, _ := saidOf(t, d, name)
		assert.Equal(t, want, reason, name)
	}

	stray := lookAt(late, other, asked(readyPod("a", "web", rotatortest.WithPort, rotatortest.Declares("https", 8443), rotatortest.Mounted), showed(rotatortest.Leaf(2), late))).Decide()
	reason, _ := saidOf(t, stray, "other")
	assert.Equal(t, api.ServingNoConsumers, reason, "no request reaches a pod that the Service does not select, whatever it serves")
}

// The pods of one Service are deleted; those of another with the same Secret stay.
func TestServiceThatLosesItsPodsIsNotCurrent(t *testing.T) {
	late := 3 * time.Minute
	serves := func(svc *corev1.Service) *corev1.Service {
		return rotatortest.Serves(svc, rotatortest.Leaf(2), rotatortest.Noon)
	}
	web, db := serves(offers("web", "https", 8443)), serves(offers("db", "https", 8443))
	db.Spec.Selector = map[string]string{"app": "db"}
	s := lookAt(late, web, asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), late)))
	s.Services = []*corev1.Service{db, web}
	d := inProtocol(s).Decide()
	reason, _ := saidOf(t, d, "db")
	assert.Empty(t, reason, "not at once")
	assert.LessOrEqual(t, d.After, testPace.confirmAfter())

	d.KeyState.TakeAnswers(s.KeyState)
	s.KeyState, s.Now = d.KeyState, s.Now.Add(testPace.confirmAfter())
	reason, _ = saidOf(t, s.Decide(), "db")
	assert.Equal(t, api.ServingNoConsumers, reason)
	reason, _ = saidOf(t, s.Decide(), "web")
	assert.Equal(t, api.ServingCurrent, reason)
}

// A condition about other ports is replaced.
func TestConditionAboutOtherPortsIsReplaced(t *testing.T) {
	late := 3 * time.Minute
	before := offers("web", "https", 8443)
	pod := asked(readyPod("a", "web"), showed(rotatortest.Leaf(2), late))
	said := inProtocol(lookAt(late, before, pod)).Decide().Conditions[0].Want
	require.Equal(t, api.ServingCurrent, said.Reason)

	now := offers("web", "https", 8443, "tls", 9443)
	now.Status.Conditions = append(now.Status.Conditions, said.Both()...)
	assert.False(t, state.ServingIsOfNow(now))
	d := inProtocol(lookAt(late+testPace.Pause, now, pod)).Decide()
	reason, message := saidOf(t, d, "web")
	assert.Equal(t, api.ServingPropagating, reason)
	assert.Contains(t, message, "targetPort 9443: not every pod of this Service has been dialled there yet")
	require.Len(t, d.Dial, 1)
	assert.Contains(t, d.Dial[0].Ports, uint16(9443))
	now.Status.Conditions = slices.Concat(rotatortest.Ready("web", rotatortest.Leaf(2)).Status.Conditions, d.Conditions[0].Want.Both())
	assert.True(t, state.ServingIsOfNow(now))
}

// After the ports have changed, a pod that answered at the former ones is not a new pod: the condition is
// not True before it has been dialled at the present ones.
func TestAPodOfBeforeTheChangeOfPortsIsDialledFirst(t *testing.T) {
	late := 3 * time.Minute
	current := showed(rotatortest.Leaf(2), late)
	before := rotatortest.Serves(offers("web", "https", 8443), rotatortest.Leaf(2), rotatortest.Noon)
	now := offers("web", "https", 9443)
	now.Status = before.Status
	a, b := asked(readyPod("a", "web"), current, atPort(9443, current)), asked(readyPod("b", "web"), current)
	b.seen = rotatortest.Noon.Add(-time.Minute) // after the first decision
	reason, message := saidOf(t, inProtocol(lookAt(late, now, a, b)).Decide(), "web")
	assert.Equal(t, api.ServingPropagating, reason)
	assert.Contains(t, message, "targetPort 9443: not every pod of this Service has been dialled there yet")

	b.answers = nil
	reason, _ = saidOf(t, inProtocol(lookAt(late, now, a, b)).Decide(), "web")
	assert.Equal(t, api.ServingCurrent, reason, "a new pod does not keep the condition undecided")
}

// However many Services select a pod, only the ports of the oldest are considered, for each of thousands of
// templates. The others are not said to be served.
func TestManyServicesOfAPod(t *testing.T) {
	late := 3 * time.Minute
	var many []any
	for i := range api.MaxPorts - 1 {
		many = append(many, fmt.Sprintf("https-%d", i), 10_000+i)
	}
	oldest := offers("web", "https", 8443)
	services := []*corev1.Service{oldest}
	for i := range 500 {
		services = append(services, offers(fmt.Sprintf("web-%d", i), many...))
	}
	current := showed(rotatortest.Leaf(2), late)
	s := lookAt(late, oldest, asked(readyPod("a", "web"), current))
	s.Services = services
	at := endpointOf(s.Pods[0].Template.Value(), s.Secret, s.Services)
	assert.Less(t, len(at.met), 2*api.MaxPorts)
	assert.Len(t, at.services, 2)
	assert.Len(t, at.beyond, 499)

	d := inProtocol(s).Decide()
	reason, message := saidOf(t, d, "web-499")
	assert.Equal(t, api.ServingNotVerified, reason)
	assert.Equal(t, `cannot tell whether the certificate in Secret "web-tls" is served: the Services of one of the pods have more than 256 ports and names, and those of older Services are verified`, message)
	reason, message = saidOf(t, d, "web-0") // its ports are to be dialled
	assert.Equal(t, api.ServingPropagating, reason, message)
	reason, _ = saidOf(t, d, "web")
	assert.Equal(t, api.ServingCurrent, reason)
}

// However many Secrets a pod mounts, a bounded number of its answers is kept for all of them together, and each Secret has
// the same share. Ports that are left out are not said to be served.
func TestManySecretsOfAPod(t *testing.T) {
	late := 3 * time.Minute
	pod := readyPod("a", "web", func(p *corev1.Pod) {
		for i := range api.MaxMounts - 1 {
			rotatortest.SecretVolume(fmt.Sprintf("secret-%d", i))(p)
		}
	})
	require.Len(t, pod.Secrets(), api.MaxMounts)
	var many []any
	for i := range probe.MaxPorts {
		many = append(many, fmt.Sprintf("https-%d", i), 8443+i)
	}
	kept := 0
	for _, secret := range pod.Secrets() {
		s := lookAt(late, offers("web", many...), asked(pod))
		s.Secret = secret
		d := s.Decide()
		require.Len(t, d.Dial, 1)
		assert.Equal(t, []uint16{8443, 8444}, d.Dial[0].Ports)
		for i := range 100 { // some were of ports that no Service has any more
			d.KeyState.Record(pod.UID, []probe.Answer{{Port: uint16(1 + i), At: rotatortest.Noon.Add(time.Duration(i) * time.Second)}})
		}
		kept += len(d.KeyState.pods[pod.UID].answers)
	}
	assert.LessOrEqual(t, kept, probe.MaxAnswers)

	current := showed(rotatortest.Leaf(2), late)
	serves := asked(pod, current, atPort(8444, current))
	reason, message := saidOf(t, inProtocol(lookAt(late, offers("web", many...), serves)).Decide(), "web")
	assert.Equal(t, api.ServingNotVerified, reason)
	assert.Contains(t, message, "at most 16 ports of a pod are dialled for a Secret, and fewer if it mounts more than 8 Secrets")
	reason, message = saidOf(t, inProtocol(lookAt(late, offers("web", many[:4]...), serves)).Decide(), "web")
	assert.Equal(t, api.ServingCurrent, reason, message)

	plain := probe.Answer{Kind: probe.Plaintext, At: rotatortest.Noon.Add(late)}
	unmarked := offers("web", "a", 8443, "b", 8444, "c", 8445)
	isNot := asked(pod, atPort(8443, plain), atPort(8444, plain))
	reason, message = saidOf(t, inProtocol(lookAt(late, unmarked, isNot)).Decide(), "web")
	assert.Equal(t, api.ServingNotVerified, reason, "the port that is left out may be the one with TLS")
	assert.Contains(t, message, "at most 16 ports of a pod are dialled for a Secret")
	reason, message = saidOf(t, inProtocol(lookAt(late, unmarked, serves)).Decide(), "web")
	assert.Equal(t, api.ServingCurrent, reason, message)
}

// Pods of one workload may mount different Secrets, as in a rollout, and so are dialled at different ports.
func TestPodsWithMoreSecretsThanOthers(t *testing.T) {
	late := 3 * time.Minute
	all := offers("web", "https-a", 8443, "https-b", 8444, "https-c", 8445, "https-d", 8446)
	var answers []probe.Answer
	for port := range uint16(4) {
		answers = append(answers, atPort(8443+port, showed(rotatortest.Leaf(2), late)))
	}
	more := readyPod("a", "web", func(p *corev1.Pod) {
		for i := range api.MaxMounts - 1 {
			rotatortest.SecretVolume(fmt.Sprintf("secret-%d", i))(p)
		}
	})
	few := asked(readyPod("b", "web"), answers...)
	for _, consumers := range [][]consumer{{asked(more, answers[:2]...), few}, {few, asked(more, answers[:2]...)}} {
		d := inProtocol(lookAt(late, all, consumers...)).Decide()
		assert.Equal(t, map[State]int{stateCurrent: 1, stateNotVerified: 1}, d.States)
		reason, message := saidOf(t, d, "web")
		assert.Equal(t, api.ServingNotVerified, reason)
		assert.Contains(t, message, "targetPorts 8445, 8446: ")
	}
}

// As many ports as the page on limits promises are considered.
func TestPortsUpToTheLimit(t *testing.T) {
	var services []*corev1.Service
	for i, n := range []int{200, 56, 1} {
		var ports []any
		for port := range n {
			ports = append(ports, fmt.Sprintf("https-%d", port), 10_000+300*i+port)
		}
		services = append(services, offers(fmt.Sprintf("web-%d", i), ports...))
	}
	at := endpointOf(readyPod("a", "web").Template.Value(), "web-tls", services)
	assert.Equal(t, services[:2], at.services)
	assert.Equal(t, services[2:], at.beyond)
}

// Pods whose templates differ cost little, also with many ports: unbounded, the decision takes gigabytes.
func TestManyTemplatesOfManyServicesCostLittle(t *testing.T) {
	var many []any
	for i := range api.MaxPorts {
		many = append(many, fmt.Sprintf("https-%d", i), 10_000+i)
	}
	s := lookAt(3*time.Minute, offers("web", many...))
	s.Services = nil
	for i := range 200 {
		s.Services = append(s.Services, offers(fmt.Sprintf("web-%d", i), many...))
	}
	for i := range 50 {
		s.Pods = append(s.Pods, readyPod(fmt.Sprintf("web-%d", i), "web", rotatortest.Label("statefulset.kubernetes.io/pod-name", fmt.Sprintf("web-%d", i))))
	}
	assert.Less(t, bounded.Allocated(func() { s.Decide() }), uint64(200<<20*bounded.RaceFactor))
}
