package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestVerifyAnyOfGuardedPorts(t *testing.T) {
	svc := rotatortest.Asking("web", map[string]string{"app": "web"}, "sc-any-8080", 8443)
	ports := func(clients, admits string) map[uint16]*probe.Guard {
		if svc.Annotations[api.AnnotationClients] = clients; clients == "" {
			delete(svc.Annotations, api.AnnotationClients)
		}
		pod := rotatortest.ReadyPod("a", "web", rotatortest.Annotation(api.AnnotationAdmits, admits), rotatortest.WithPort, rotatortest.Declares("sc-any-8080", 15444))
		found, _ := PodPorts([]corev1.Service{*svc}, []corev1.Pod{*pod}, "cluster.local")
		guards := map[uint16]*probe.Guard{}
		for _, p := range found {
			guards[p.Port] = p.Guard
		}
		require.Len(t, guards, 2)
		require.Nil(t, guards[8443], "no proxy")
		return guards
	}
	want := &probe.Guard{Plaintext: true, Listed: pki.SPIFFEID{Namespace: "shop", ServiceAccount: "cart"}}
	assert.Equal(t, want, ports("shop/cart", "sc-any-8080=shop/cart")[15444])
	assert.NotNil(t, ports("shop/cart", "")[15444], "a pod without a list admits all, which is to be seen")
	assert.Nil(t, ports("shop/cart", "sc-any-8080=shop/cart,watch")[15444])
	assert.Nil(t, ports("", "sc-any-8080=shop/cart")[15444])
	for judgement, problems := range map[probe.Judgement][]string{probe.Refused: nil, probe.Admitted: {ProblemStrangers}, "": {ProblemUnguarded}} {
		var s ServedPort
		s.Tried(&probe.Guarding{Judgement: judgement})
		assert.Equal(t, problems, s.Problems)
		assert.Equal(t, judgement != probe.Refused, s.Has(ServerProblems()))
	}
}

func TestVerifyOfGuardedPorts(t *testing.T) {
	for name, tt := range map[string]struct {
		lists           bool
		status          metav1.ConditionStatus
		reason          string
		ports           string // of the condition, if they are not those of now
		noRotator       string
		verdict, column string
	}{
		"no list":         {verdict: "", column: ""},
		"True":            {lists: true, status: metav1.ConditionTrue, reason: api.GuardedRefusing, verdict: VerdictOK, column: "True"},
		"admits":          {lists: true, status: metav1.ConditionFalse, reason: api.GuardedAdmits, verdict: VerdictFailed, column: api.GuardedAdmits},
		"watch":           {lists: true, status: metav1.ConditionFalse, reason: api.GuardedWatch, verdict: VerdictFailed, column: api.GuardedWatch},
		"not seen":        {lists: true, status: metav1.ConditionUnknown, reason: api.GuardedNotSeen, verdict: VerdictNotSeen, column: api.GuardedNotSeen},
		"pending":         {lists: true, status: metav1.ConditionUnknown, reason: api.GuardedPending, verdict: VerdictNotSeen, column: api.GuardedPending},
		"no condition":    {lists: true, verdict: VerdictNotSeen, column: ""},
		"other ports":     {lists: true, status: metav1.ConditionTrue, reason: api.GuardedRefusing, ports: "x", verdict: VerdictNotSeen, column: "Outdated"},
		"no rotator runs": {lists: true, status: metav1.ConditionTrue, reason: api.GuardedRefusing, noRotator: "no rotator runs", verdict: VerdictNotSeen, column: "True"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := rotatortest.Asking("web", map[string]string{"app": "web"}, "sc-tls-8080")
			if tt.lists {
				svc.Annotations[api.AnnotationClients] = "shop/cart"
			}
			if tt.status != "" {
				ports := tt.ports
				if ports == "" {
					ports = api.GuardHash(svc)
				}
				svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionGuarded, Status: tt.status, Reason: tt.reason, Message: "said"}, state.Guarded{Of: ports}).Both()
			}
			s, _ := ServiceOf(svc)
			verdict := ""
			for _, f := range checkGuarded(VerifySituation{Service: s, NoRotator: tt.noRotator}) {
				verdict = f.Verdict
			}
			assert.Equal(t, tt.verdict, verdict)
			assert.Equal(t, tt.column, s.Guarded.Column())
		})
	}
	said := func(g *probe.Guarding) string {
		for _, f := range checkStrangers(VerifySituation{Address: "localhost:8443", Strangers: g}) {
			return f.Verdict + " " + f.Text
		}
		return ""
	}
	assert.Empty(t, said(nil))
	assert.Equal(t, "ok localhost:8443: refuses clients that are not listed", said(&probe.Guarding{Judgement: probe.Refused}))
	assert.Equal(t, "FAILED localhost:8443: admitted a client without TLS, although the Service lists its clients", said(&probe.Guarding{Judgement: probe.Admitted, Stranger: probe.InPlaintext}))
	assert.Equal(t, "notSeen localhost:8443: cannot tell whether a client with a forged certificate is refused: reset", said(&probe.Guarding{Stranger: probe.Forged, Cause: probe.CauseReset}))
	assert.True(t, VerifySituation{Service: Service{Proxy: []string{"sc-any-8080"}}}.Guard().Plaintext)
	assert.False(t, VerifySituation{Service: Service{Proxy: []string{"sc-any-8080", "sc-tls-8081"}}}.Guard().Plaintext)
	assert.False(t, VerifySituation{}.Guard().Plaintext)
}

// TestWhichAddressMayBeAProxy: a dial of a proxy that is not known as such is recorded as a refused caller.
func TestWhichAddressMayBeAProxy(t *testing.T) {
	target := func(port int32, target intstr.IntOrString) api.ProbeTarget {
		return api.ProbeTarget{Port: port, Target: target, Named: true}
	}
	s := VerifySituation{Service: Service{Proxy: []string{"sc-tls-5432"}}, Targets: []api.ProbeTarget{target(15432, intstr.FromString("sc-tls-5432")), target(443, intstr.FromInt32(8443))}}
	for port, want := range map[string]bool{"15432": true, "15444": true, "443": false, "8443": false} {
		assert.Equal(t, want, s.Proxied(port), port)
	}
	s.Service.Proxy = nil
	assert.False(t, s.Proxied("15444"))
}
