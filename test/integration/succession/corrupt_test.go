package succession

import (
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// newService makes an annotated Service in shop that asks for Secret NAME-tls.
func newService(t *scene, name string) {
	t.Helper()
	_, err := t.admin.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func ready(t *scene, service string) *metav1.Condition {
	t.Helper()
	svc, err := t.admin.CoreV1().Services("shop").Get(t.Context(), service, metav1.GetOptions{})
	require.NoError(t, err)
	return api.Condition(svc, api.ConditionReady)
}

// notReady waits until the Service says why it has no certificate, and sees that
// it has none.
func notReady(t *scene, service, reason, says string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, says)
	}, waitFor, tick, "%s of %s; is %v", reason, service, ready(t, service))
	_, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// issued waits until the Service has its certificate.
func issued(t *scene, service string) *corev1.Secret {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionTrue
	}, waitFor, tick, "certificate of %s; is %v", service, ready(t, service))
	secret, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}
