package failing

import (
	"context"
	"encoding/json"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// made makes a pod of Deployment web as the webhook's own function has it injected, by what it
// knows of Service web now. Somebody asked for flags.
func (p place) made(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p.t.Helper()
	require.NoError(p.t, admin.Get(p.t.Context(), client.ObjectKeyFromObject(p.web), p.web))
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.name, Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "abc"}, Annotations: map[string]string{api.AnnotationMode: string(api.ModeArgs)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1", Args: []string{"--port=443"}, Ports: []corev1.ContainerPort{{ContainerPort: 443}},
		}}},
	}
	for _, change := range changes {
		change(pod)
	}
	changed, _, err := mutate.Mutate(pod, choose.Known{Services: []*corev1.Service{p.web}})
	require.NoError(p.t, err)
	patch, err := changed.JSON()
	require.NoError(p.t, err)
	decoded, err := evanphx.DecodePatch(patch)
	require.NoError(p.t, err)
	document, err := json.Marshal(pod)
	require.NoError(p.t, err)
	document, err = decoded.Apply(document)
	require.NoError(p.t, err)
	injected := &corev1.Pod{}
	require.NoError(p.t, json.Unmarshal(document, injected))
	require.NoError(p.t, admin.Create(p.t.Context(), injected))
	p.t.Cleanup(func() {
		require.NoError(p.t, client.IgnoreNotFound(admin.Delete(context.WithoutCancel(p.t.Context()), injected, client.GracePeriodSeconds(0))))
	})
	return injected
}
