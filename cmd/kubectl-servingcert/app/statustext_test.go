package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// The status of one Service lists the ports at which the proxy serves TLS.
func TestStatusListsPortsOfProxy(t *testing.T) {
	r := &report{detailed: true, Services: []status.Service{{Name: "web", Message: "names", Proxy: []string{"sc-tls-8080"}}}}
	assert.Equal(t, []string{"names", "TLS is requested from the proxy in its pods, at targetPort sc-tls-8080"}, r.remarks())
	r.Services[0].Proxy = nil
	assert.Equal(t, []string{"names"}, r.remarks())
}

// The status reports that the clients of an older bundle are unknown.
func TestStatusReportsClientsNotSeen(t *testing.T) {
	var out bytes.Buffer
	f := &statusFlags{plugin: &plugin{}}
	f.output, f.out, f.screen = "text", &out, screen{to: &out}
	r := &report{ClientsNotSeen: "clients that may hold an older CA bundle: this user may not list pods in namespace shop"}
	require.NoError(t, f.write(r, &table{}, time.Now()))
	assert.Regexp(t, `(?m)^Not seen +`+r.ClientsNotSeen+`$`, out.String())
}

// The status of one Service names the cause if its pods fail after their injection.
func TestStatusOfAServiceWhosePodsFail(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
	svc.Status.Conditions = []metav1.Condition{{Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse, Reason: api.PodsFailing, Message: "container app exits: \x1b[31m"}}
	s, ok := status.ServiceOf(svc)
	require.True(t, ok)
	r := &report{detailed: true, Services: []status.Service{s}}
	assert.Equal(t, []string{"-", `condition servingcert.dev/PodsHealthy is False: PodsFailing: container app exits: ` + api.Escape("\x1b[31m")}, r.remarks())
	svc.Status.Conditions[0].Status = metav1.ConditionTrue
	s, _ = status.ServiceOf(svc)
	assert.Empty(t, s.PodsFail())
}
