package deploy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/skip"
)

// The words of the policies.
const (
	onlyServing     = "conditions servingcert.dev/Serving, servingcert.dev/Guarded and servingcert.dev/PodsHealthy only"
	noServiceMeta   = "may not change a Service's metadata"
	onlyWhoAsk      = "only whose template has annotation servingcert.dev/on-rotate: restart"
	onlyRestartedAt = "may write kubectl.kubernetes.io/restartedAt only, and a time into it"
	nothingElse     = "may change nothing else of a workload's spec"
	noWorkloadMeta  = "may not change a workload's metadata"
)

func TestWhatTheRotatorMayChangeOfAService(t *testing.T) {
	rotator := as(t, "servingcert-rotator")
	probe := newService(t, newNamespace(t, false))
	denied(t, func() error { return patchStatus(t.Context(), rotator, probe, loadBalancer, client.DryRunAll) })
	const condition = `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Current","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	for _, test := range []struct{ name, patch, refusal string }{
		{"its condition", fmt.Sprintf(condition, api.ConditionServing), ""},
		{"its other condition", fmt.Sprintf(condition, api.ConditionPodsHealthy), ""},
		{"its condition away", `{"status":{"conditions":[{"type":"servingcert.dev/Serving","$patch":"delete"}]}}`, ""},
		{"the signer's condition", fmt.Sprintf(condition, api.ConditionReady), onlyServing},
		{"the signer's condition away", `{"status":{"conditions":[{"type":"servingcert.dev/Ready","$patch":"delete"}]}}`, onlyServing},
		{"somebody's condition", fmt.Sprintf(condition, "example.com/Programmed"), onlyServing},
		{"all conditions", `{"status":{"conditions":null}}`, onlyServing},
		{"the load balancer", loadBalancer, "may not change status.loadBalancer"},
		{"a label", `{"metadata":{"labels":{"app":"other"}}}`, noServiceMeta},
		{"an annotation", `{"metadata":{"annotations":{"servingcert.dev/secret-name":"other"}}}`, noServiceMeta},
		{"an annotation of service-ca's", `{"metadata":{"annotations":{"service.beta.openshift.io/serving-cert-generation-error":"x"}}}`, noServiceMeta},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, noServiceMeta},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1"}]}}`, noServiceMeta},
	} {
		t.Run(test.name, func(t *testing.T) {
			svc := newService(t, newNamespace(t, true))
			says(t, "servingcert-rotator", svc, metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionUnknown, Reason: "R"})
			refusedWith(t, patchStatus(t.Context(), rotator, svc, test.patch), test.refusal)
		})
	}
	t.Run("the Service itself", func(t *testing.T) {
		err := rotator.Patch(t.Context(), probe, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"app":"other"}}}`)))
		assert.ErrorContains(t, err, "cannot patch resource")
	})
}

// workloads returns one of each kind that can be restarted, with pods that ask for
// it, and none of them.
func workloads(namespace string) []client.Object {
	none := new(int32)
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"who": "me"}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{api.AnnotationOnRotate: string(api.OnRotateRestart), "other": "kept"},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"no": "node"},
			Containers:   []corev1.Container{{Name: "c", Image: "example.com/x", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
		},
	}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Replicas: none, Selector: selector, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Replicas: none, Selector: selector, Template: template, ServiceName: "web"}},
		&appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
	}
}

func TestWhatTheRotatorMayChangeOfAWorkload(t *testing.T) {
	rotator, admin := as(t, "servingcert-rotator"), adminClient(t)
	const at = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`
	restart := fmt.Sprintf(at, "2026-01-02T03:04:05Z")
	namespace := newNamespace(t, false)
	for _, w := range workloads(namespace) {
		require.NoError(t, admin.Create(t.Context(), w))
	}
	patch := func(w client.Object, patch string, opts ...client.PatchOption) error {
		return rotator.Patch(t.Context(), w.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), opts...)
	}
	for _, w := range workloads(namespace) {
		denied(t, func() error { return patch(w, `{"metadata":{"labels":{"a":"b"}}}`, client.DryRunAll) })
	}
	const annotations = `{"spec":{"template":{"metadata":{"annotations":{%s}}}}}`
	for _, test := range []struct{ name, patch, refusal string }{
		{"restart it", restart, ""},
		{"restart it again", fmt.Sprintf(at, "2026-01-02T03:04:06Z"), ""},
		{"no time", fmt.Sprintf(at, "now"), onlyRestartedAt},
		{"take the restart back", fmt.Sprintf(annotations, `"kubectl.kubernetes.io/restartedAt":null`), onlyRestartedAt},
		{"another annotation of the template", fmt.Sprintf(annotations, `"other":"new"`), onlyRestartedAt},
		{"a new annotation of the template", fmt.Sprintf(annotations, `"servingcert.dev/mode":"mount"`), onlyRestartedAt},
		{"an annotation of the template away", fmt.Sprintf(annotations, `"other":null`), onlyRestartedAt},
		{"what it asks for", fmt.Sprintf(annotations, `"servingcert.dev/on-rotate":"none"`), onlyRestartedAt},
		{"a label of the template", `{"spec":{"template":{"metadata":{"labels":{"more":"x"}}}}}`, nothingElse},
		{"an image", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"example.com/evil"}]}}}}`, nothingElse},
		{"the environment", `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"c"}]}]}}}}`, nothingElse},
		{"a ServiceAccount", `{"spec":{"template":{"spec":{"serviceAccountName":"default"}}}}`, nothingElse},
		{"history", `{"spec":{"revisionHistoryLimit":1}}`, nothingElse},
		{"patience", `{"spec":{"minReadySeconds":1}}`, nothingElse},
		{"a label", `{"metadata":{"labels":{"team":"b"}}}`, noWorkloadMeta},
		{"an annotation", `{"metadata":{"annotations":{"who":"you"}}}`, noWorkloadMeta},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, noWorkloadMeta},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1"}]}}`, noWorkloadMeta},
	} {
		for _, w := range workloads(namespace) {
			t.Run(fmt.Sprintf("%s of a %T", test.name, w), func(t *testing.T) {
				require.NoError(t, patch(w, restart))
				err := admin.Patch(t.Context(), w.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, []byte(test.patch)), client.DryRunAll)
				if test.name == "history" && apierrors.IsInvalid(err) {
					skip.Now(t, fmt.Sprintf("this version allows no such change of a StatefulSet: %v", err))
				}
				refusedWith(t, patch(w, test.patch), test.refusal)
			})
		}
	}
	for _, w := range workloads(namespace) {
		t.Run(fmt.Sprintf("%T's subresources and the rest", w), func(t *testing.T) {
			err := rotator.SubResource("scale").Patch(t.Context(), w, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))
			assert.Error(t, err)
			assert.ErrorContains(t, rotator.Delete(t.Context(), w), "cannot delete resource")
			assert.ErrorContains(t, rotator.Update(t.Context(), w), "cannot update resource")
		})
	}
	t.Run("replicas", func(t *testing.T) {
		refusedWith(t, patch(workloads(namespace)[0], `{"spec":{"replicas":3}}`), nothingElse)
		refusedWith(t, patch(workloads(namespace)[1], `{"spec":{"replicas":3}}`), nothingElse)
		refusedWith(t, patch(workloads(namespace)[0], `{"spec":{"paused":true}}`), nothingElse)
	})
	t.Run("somebody else", func(t *testing.T) {
		w := workloads(namespace)[0]
		require.NoError(t, admin.Patch(t.Context(), w, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"revisionHistoryLimit":2}}`))))
	})
}

// Those that do not ask are not touched, nor are those that the same write would
// make ask.
func TestWorkloadsThatDoNotAskAreLeftAlone(t *testing.T) {
	rotator, admin := as(t, "servingcert-rotator"), adminClient(t)
	const restart = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-02T03:04:05Z"}}}}}`
	const both = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-02T03:04:05Z","servingcert.dev/on-rotate":"restart"}}}}}`
	for _, annotations := range []map[string]string{nil, {}, {api.AnnotationOnRotate: "reload"}, {api.AnnotationOnRotate: "none"}, {"a": "restart"}} {
		namespace := newNamespace(t, true)
		for _, w := range workloads(namespace) {
			switch w := w.(type) {
			case *appsv1.Deployment:
				w.Spec.Template.Annotations = annotations
			case *appsv1.StatefulSet:
				w.Spec.Template.Annotations = annotations
			case *appsv1.DaemonSet:
				w.Spec.Template.Annotations = annotations
			}
			require.NoError(t, admin.Create(t.Context(), w))
			denied(t, func() error {
				return rotator.Patch(t.Context(), w.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, []byte(restart)))
			})
			for _, patch := range []string{restart, both} {
				err := rotator.Patch(t.Context(), w.DeepCopyObject().(client.Object), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
				refusedWith(t, err, onlyWhoAsk)
			}
		}
	}
}

// denied waits until a policy refuses a write: the API server takes a second or
// so to take one up.
func denied(t *testing.T, write func() error) {
	t.Helper()
	harness.Eventually(t, func() error {
		if err := write(); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return fmt.Errorf("no policy refuses it: %w", err)
		}
		return nil
	})
}

// The policy compares whole specs, which costs what the API server allows also
// for one of nearly the size that it can store.
func TestALargeWorkloadCanBeRestarted(t *testing.T) {
	rotator, admin := as(t, "servingcert-rotator"), adminClient(t)
	d := workloads(newNamespace(t, false))[0].(*appsv1.Deployment)
	template := &d.Spec.Template
	for i := range 40 {
		c := corev1.Container{Name: fmt.Sprint("c-", i), Image: "example.com/x"}
		for j := range 200 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", j), Value: strings.Repeat("v", 60)})
		}
		template.Spec.Containers = append(template.Spec.Containers, c)
	}
	for i := range 200 {
		template.Annotations[fmt.Sprint("example.com/note-", i)] = strings.Repeat("n", 500)
		d.Annotations[fmt.Sprint("example.com/note-", i)] = strings.Repeat("n", 500)
	}
	require.NoError(t, admin.Create(t.Context(), d))
	const restart = `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-02T03:04:05Z"%s}}}}}`
	patch := func(patch string) error {
		return rotator.Patch(t.Context(), d.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
	denied(t, func() error { return patch(fmt.Sprintf(restart, `,"example.com/note-7":"other"`)) })
	require.NoError(t, patch(fmt.Sprintf(restart, "")))
	refusedWith(t, patch(`{"spec":{"template":{"spec":{"containers":[{"name":"c-39","env":[{"name":"VARIABLE_199","value":"other"}]}]}}}}`), nothingElse)
}
