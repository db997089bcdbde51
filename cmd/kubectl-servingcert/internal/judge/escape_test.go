package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const hostile = "x\n\x1b[2J\u202eFORGED\tTrue"

// What is read from the cluster is escaped when it is read, so that it is in every form
// of output.
func TestWhatIsReadIsEscaped(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: hostile}}}
	for _, kind := range []string{api.ConditionReady, api.ConditionServing} {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: kind, Status: hostile, Reason: hostile, Message: hostile})
	}
	service, _ := ServiceOf(svc)
	ca := ParseCA(map[string]string{
		api.CAGeneration: "1", api.CAPhase: hostile, api.CAWhy: hostile, api.CAWaitingFor: hostile, api.CABundleHash: hostile,
		api.CARotation: "overlap:" + hostile, api.CARotationOutcome: hostile, api.CAProblem: hostile, api.CAWarning: hostile,
	})
	trust := ParseTrust(map[string]string{api.TrustBundleHash: hostile, api.TrustTargets: "1", api.TrustHolding: "0", api.TrustPending: "1", api.TrustRefusing: "0",
		api.TrustNotHolding: hostile, api.TrustProblem: hostile})
	listed := []Service{{Namespace: "shop", Secret: "web-tls", Serving: &Serving{Reason: api.ServingStale, Leaf: "1"}}, {Serving: &Serving{Reason: api.ServingStale}}}
	AddStale(listed, StaleList{Problem: hostile, ServingStatus: api.ServingStatus{Stale: []api.StaleWorkload{{
		Namespace: "shop", Secret: "web-tls", Leaf: "1", Kind: hostile, Name: hostile, OnRotate: hostile, Since: time.Unix(0, 0),
		Held: &api.RestartHold{Reason: hostile, Message: hostile}}}}})
	stale := listed[0].Serving.Stale[0]

	texts := []string{
		service.Secret, service.Ready, service.Reason, service.Message, service.Serving.Status, service.Serving.Reason, service.Serving.Message,
		ca.Phase, ca.Why, ca.WaitingFor, ca.BundleHash, ca.Rotation, ca.RotationOutcome, ca.Problem, ca.Progress(),
		trust.BundleHash, trust.Problem, stale.Kind, stale.Name, string(stale.OnRotate), stale.Held.Reason, stale.Held.Message,
		listed[0].Serving.StaleUnknown, listed[1].Serving.StaleUnknown,
	}
	texts = append(append(append(texts, ca.Warnings...), trust.NotHolding...), StaleLines(listed[0].Serving.Stale)...)
	found := 0
	for _, text := range texts {
		assert.Equal(t, api.Escape(text), text)
		found += strings.Count(text, "FORGED")
	}
	assert.Greater(t, found, 20, "%q", texts)
}
