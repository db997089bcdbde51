package openshift

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const refusal = "OpenShift's service-ca runs in this cluster (Deployment openshift-service-ca/service-ca)"

// serviceCARuns creates the Deployment of service-ca for the time of a test.
func serviceCARuns(t *testing.T) {
	t.Helper()
	err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.OpenShiftNamespace}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	one := int32(1)
	labels := map[string]string{"app": "service-ca"}
	runs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.OpenShiftNamespace, Name: api.OpenShiftDeployment},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
		}},
	}
	require.NoError(t, admin.Create(t.Context(), runs))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), runs)) })
}

// Both would write the same Secrets and bundles: none of the programs starts
// where service-ca runs.
func TestNoneStartsBesideServiceCA(t *testing.T) {
	serviceCARuns(t)
	for _, name := range programs {
		p, err := program(t.Context(), name)
		require.NoError(t, err)
		log, err := exec.Command(p.Path, append(p.Args, "--health-addr=0")...).CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s", log)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Contains(t, string(log), refusal, name)
	}
}
