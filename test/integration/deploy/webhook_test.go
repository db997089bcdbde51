package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// Nobody answers for the webhook here, so a pod that the API server would ask it
// about is refused, and one that it would not ask about is there.
func TestWhichPodsTheWebhookIsAskedAbout(t *testing.T) {
	optedIn, other := newNamespace(t, true), newNamespace(t, false)
	const failed = `failed calling webhook "pods.servingcert.dev"`
	const kubeSystem = "kube-system"
	patchLabel(t, kubeSystem, api.LabelInject, api.InjectEnabled)
	harness.Eventually(t, func() error { // the API server takes a webhook up a moment after it was applied
		err := adminClient(t).Create(t.Context(), restrictedPod(optedIn), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), failed) {
			return fmt.Errorf("the webhook is not asked: %w", err)
		}
		return nil
	})
	for _, test := range []struct {
		name, namespace     string
		labels, annotations map[string]string
		asked               bool
	}{
		{"opted-in namespace", optedIn, nil, nil, true},
		{"other labels and annotations", optedIn, map[string]string{"a": "b"}, map[string]string{"a": "b"}, true},
		{"another value of our label", optedIn, map[string]string{api.LabelInject: "please"}, nil, true},
		{"a forged mark of injection", optedIn, map[string]string{api.LabelInjected: "true"}, nil, true},
		{"opted-out pod", optedIn, map[string]string{api.LabelInject: api.InjectDisabled}, nil, false},
		{"mirror pod", optedIn, nil, map[string]string{corev1.MirrorPodAnnotationKey: "x"}, false},
		{"another namespace", other, nil, nil, false},
		{"kube-system, though labelled", kubeSystem, nil, nil, false},
		{"our own namespace, though labelled", api.DefaultNamespace, nil, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := restrictedPod(test.namespace)
			pod.Labels, pod.Annotations = test.labels, test.annotations
			err := adminClient(t).Create(t.Context(), pod)
			if test.asked {
				assert.ErrorContains(t, err, failed)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func patchLabel(t *testing.T, namespace, key, value string) {
	t.Helper()
	admin := adminClient(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			return err
		}
		ns.Labels[key] = value
		return admin.Update(t.Context(), ns)
	})
}

// restrictedPod meets the restricted Pod Security Standard.
func restrictedPod(namespace string) *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-"},
		Spec: corev1.PodSpec{
			NodeName: "no-such-node", // a mirror pod must name its node
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "web", Image: "web",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// The paths stand in two places, the file and the code, and must be the same.
func TestWebhookPath(t *testing.T) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "servingcert"}}
	require.NoError(t, adminClient(t).Get(t.Context(), client.ObjectKeyFromObject(config), config))
	assert.Equal(t, admission.Path, *config.Webhooks[0].ClientConfig.Service.Path)
}
