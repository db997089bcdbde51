package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func running(account string, args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Args: args}}}
	return d
}

// Flags are read as the programs read them. What the values of the chart make of all objects is in
// test/integration/chart.
func TestFlagsOfADeployment(t *testing.T) {
	f := flagsOf(running("", "--csr=false", "-wake=false", "--targets", "ConfigMap,APIService", "--max-restarts=0", "--log-level=debug", "--log-level=info", "--correct-flags", "--verify-consumers=no", "plain"))
	for _, name := range []string{"csr", "wake", "max-restarts"} {
		assert.True(t, f.off(name), name)
	}
	for _, name := range []string{"correct-flags", "verify-consumers", "absent"} {
		assert.False(t, f.off(name), name)
	}
	assert.Equal(t, "info", f["log-level"])
	assert.False(t, f.without("ConfigMap"))
	assert.True(t, f.without("ClusterTrustBundle"))
	assert.False(t, flags{}.without("ClusterTrustBundle"), "by default all")
	assert.Empty(t, flagsOf(&appsv1.Deployment{}))
}

// What was not read is expected as the release has it, and the release itself is not changed.
func TestExpected(t *testing.T) {
	release := []*unstructured.Unstructured{object(t, roleText), object(t, bindingText), object(t, webhookText), object(t, policyText), object(t, serviceText)}
	before := make([]*unstructured.Unstructured, len(release))
	for i := range release {
		before[i] = release[i].DeepCopy()
	}
	same, err := Expected(release, "servingcert-system", nil)
	require.NoError(t, err)
	assert.Equal(t, before, same)
	_, err = Expected(release, "servingcert-system", map[string]*appsv1.Deployment{
		"servingcert-signer": running("issuer", "--csr=false"), "servingcert-webhook": running("injector", "--port=10250"),
	})
	require.NoError(t, err)
	assert.Equal(t, before, release)

	release[0].Object["rules"] = "none"
	_, err = Expected(release, "servingcert-system", map[string]*appsv1.Deployment{"servingcert-signer": running("")})
	assert.ErrorContains(t, err, "ClusterRole servingcert-signer: ")
}
