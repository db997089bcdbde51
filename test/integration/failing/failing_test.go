package failing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

const unknownFlag = "starting\nunknown flag: --tls-cert-file\n"

func TestAPodThatExitsIsReportedUntilItIsRepaired(t *testing.T) {
	r := startRotator(t)
	p := newPlace(t)
	pod := p.made("web-1")
	require.Len(t, pod.Spec.Containers[0].Args, 3, "flags were added")
	p.crashes(pod, unknownFlag)

	const want = `container app of pod web-1 exited with code 2 and was restarted 3 times; its termination message ends with "starting unknown flag: --tls-cert-file"; ` +
		"if the injection is the cause, annotate the pod template servingcert.dev/mode: env, which omits flags, variables of the program and HTTPS probes"
	assert.Equal(t, "Deployment web: "+want, p.says(api.PodsFailing))
	for _, kind := range []string{"Service", "Deployment"} {
		assert.Equal(t, want, p.told(api.PodsFailing, kind, "web"))
	}
	p.counted(r, 1)

	// Nothing is taken back by itself, and what is advised takes it back.
	assert.True(t, p.exists(pod))
	assert.Len(t, p.made("web-2").Spec.Containers[0].Args, 3)
	assert.Len(t, p.made("web-3", func(pod *corev1.Pod) { pod.Annotations[api.AnnotationMode] = string(api.ModeEnv) }).Spec.Containers[0].Args, 1)

	// Neither another run nor another leader changes what is said.
	p.says(api.PodsFailing)
	before := p.web.ResourceVersion
	p.crashes(pod, unknownFlag)
	r.Stop()
	r = startRotator(t)
	p.counted(r, 1)
	p.says(api.PodsFailing)
	assert.Equal(t, before, p.web.ResourceVersion)

	p.runs(pod, 2*time.Minute, true)
	p.saysNothing()
}

func TestAPodThatIsNotReadyInAMinuteIsReported(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	pod := p.made("web-1")
	p.runs(pod, 57*time.Second, false) // by a clock in whole seconds
	assert.Contains(t, p.says(api.PodsFailing), "container app of pod web-1 was not ready within a minute; if")
	assert.Contains(t, p.told(api.PodsFailing, "Deployment", "web"), "was not ready within a minute")

	require.NoError(t, admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	p.saysNothing()
}

// TestAnOperatorThatDeletesWhatItCreated: it compares the pods with its own idea of them.
func TestAnOperatorThatDeletesWhatItCreated(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	for range 3 {
		pod := p.made("web-1", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Cluster", Name: "web", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: new(true)}}
			pod.Spec.NodeName = "node" // whose kubelet has to end it
		})
		require.NoError(t, admin.Delete(t.Context(), pod))
		require.NoError(t, admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
	assert.Contains(t, p.says(api.PodsDeleted), "Cluster web: 3 or more of its injected pods were deleted within 5m0s")
	assert.Contains(t, p.told(api.PodsDeleted, "Cluster", "web"), "label the pod template servingcert.dev/inject: disabled")
}
