package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

func TestServiceOf(t *testing.T) {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "shop", "web"
	_, ok := ServiceOf(svc)
	assert.False(t, ok, "no request")
	svc.Annotations = map[string]string{api.OpenShiftSecretName: "web-tls"}
	_, ok = ServiceOf(svc)
	assert.False(t, ok, "OpenShift's annotation without a condition")

	svc.Status.Conditions = append(svc.Status.Conditions, state.Say(ready("True", "Issued", "names"), state.Ready{Secret: "web-tls", Leaf: strings.Repeat("a", 64)}).Both()...)
	s, ok := ServiceOf(svc)
	assert.True(t, ok)
	assert.Equal(t, "web-tls", s.Secret)
	assert.Equal(t, strings.Repeat("a", 64), s.Leaf)

	assert.Empty(t, s.ByProxy())

	svc.Spec.Ports = []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}
	s, _ = ServiceOf(svc)
	assert.Equal(t, "TLS is requested from the proxy in its pods, at targetPort sc-tls-8080", s.ByProxy())

	svc.Annotations = nil
	s, ok = ServiceOf(svc)
	assert.True(t, ok, "retained")
	assert.Empty(t, s.Secret)
}

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message}
}
