package status

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

const hostile = "x\n\x1b[2J\u202eFORGED\tTrue"

// Text from the cluster is escaped when it is read, so that every form of output has it
// escaped.
func TestStatusIsEscaped(t *testing.T) {
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
	said := state.Serving{Leaf: strings.Repeat("a", 64), Since: time.Unix(1, 0), Stale: []state.StaleWorkload{{Kind: hostile, Name: hostile, OnRotate: hostile}}}
	stale := servingOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: state.Say(metav1.Condition{Type: api.ConditionServing, Reason: "x"}, said).Both()}}).Stale[0]

	texts := []string{
		service.Secret, service.Ready, service.Reason, service.Message, service.Serving.Status, service.Serving.Reason, service.Serving.Message,
		ca.Phase, ca.Why, ca.WaitingFor, ca.BundleHash, ca.Rotation, ca.RotationOutcome, ca.Problem, ca.Progress(),
		trust.BundleHash, trust.Problem, stale.Kind, stale.Name, string(stale.OnRotate),
	}
	texts = append(append(texts, ca.Warnings...), trust.NotHolding...)
	found := 0
	for _, text := range texts {
		assert.Equal(t, api.Escape(text), text)
		found += strings.Count(text, "FORGED")
	}
	assert.Greater(t, found, 20, "%q", texts)
}
