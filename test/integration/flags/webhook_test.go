package flags

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// made makes a pod of Deployment web as the webhook's own function has it injected, by
// what it knows of Service web now.
func (p place) made(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p.t.Helper()
	require.NoError(p.t, admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web))
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.name, Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1", Args: []string{"--port=443"}, Ports: []corev1.ContainerPort{{ContainerPort: 443}},
		}}},
	}
	for _, change := range changes {
		change(pod)
	}
	changed, _, err := mutate.Mutate(pod, choose.Known{Services: []*corev1.Service{p.web}, Config: choose.Config{UnknownPrograms: api.UnknownProgramsFlags}})
	require.NoError(p.t, err)
	patch, err := changed.JSON()
	require.NoError(p.t, err)
	decoded, err := jsonpatch.DecodePatch(patch)
	require.NoError(p.t, err)
	document, err := json.Marshal(pod)
	require.NoError(p.t, err)
	document, err = decoded.Apply(document)
	require.NoError(p.t, err)
	injected := &corev1.Pod{}
	require.NoError(p.t, json.Unmarshal(document, injected))
	require.NoError(p.t, admin.Create(p.t.Context(), injected))
	return injected
}

func statusOf(t *testing.T, pod *corev1.Pod) api.InjectionStatus {
	t.Helper()
	s, ok := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	require.True(t, ok)
	return s
}

// TestWhatTheWebhookMakesOfIt: what the webhook tries is taken back, and what somebody
// asked for is not.
func TestWhatTheWebhookMakesOfIt(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	first := p.made("web-1")
	tried := statusOf(t, first)
	require.Len(t, tried.Attempts, 1)
	assert.Len(t, first.Spec.Containers[0].Args, 3)
	assert.Equal(t, corev1.TerminationMessageFallbackToLogsOnError, first.Spec.Containers[0].TerminationMessagePolicy)
	asked := p.made("web-2", func(pod *corev1.Pod) { pod.Annotations[api.AnnotationMode] = string(api.ModeArgs) })
	assert.Empty(t, statusOf(t, asked).Attempts)

	p.crashes(asked, unknownFlag)
	p.crashes(first, unknownFlag)
	p.says(metav1.ConditionFalse, api.FlagsWithheld)
	p.gone(first)
	assert.True(t, p.exists(asked), "that was asked for explicitly")

	nextRelease := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = "example.com/app:2", []string{"--port=443", "--log-level=info"}
	}
	second := p.made("web-3", nextRelease)
	assert.Equal(t, []string{"--port=443", "--log-level=info"}, second.Spec.Containers[0].Args)
	assert.Equal(t, tried.Attempts, statusOf(t, second).Withheld)
	assert.Empty(t, statusOf(t, second).Attempts)
	assert.Equal(t, "true", second.Labels[api.LabelInjected])
}

// TestATrialByTheWebhook: the pods of a trial are told apart.
func TestATrialByTheWebhook(t *testing.T) {
	startRotator(t)
	p := newPlace(t)
	first := p.made("web-1")
	p.crashes(first, "")
	p.says(metav1.ConditionFalse, api.FlagsWithheld)
	p.gone(first)
	p.crashes(p.made("web-2"), otherCause)
	p.says(metav1.ConditionTrue, api.FlagsKept)
	assert.Len(t, p.made("web-3").Spec.Containers[0].Args, 3, "it gets the flags again")
}
