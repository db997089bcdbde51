package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// annotationCase is a value of an annotation, on what it is written, and whether the
// component that reads it refuses it.
type annotationCase struct {
	on      string // a key of makers
	key     string
	value   string            // %s stands for the namespace
	words   string            // of the refusal, the policy's and the parser's; "": both accept
	names   string            // what the refusal names, if not the key
	left    bool              // the parser refuses it, and the policy leaves that to the condition
	beside  map[string]string // other annotations
	service func(*corev1.Service)
}

// makers make an object of each kind, with annotations where servingcert reads them.
var makers = map[string]func(namespace string, annotations map[string]string) client.Object{
	"Service": func(namespace string, annotations map[string]string) client.Object {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: annotations},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443}}},
		}
	},
	"Namespace": func(_ string, annotations map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Annotations: annotations}}
	},
	"ConfigMap": func(namespace string, annotations map[string]string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bundle", Annotations: annotations}}
	},
	"CA": func(_ string, annotations map[string]string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName, Annotations: annotations}}
	},
	"Deployment": func(namespace string, annotations map[string]string) client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template(annotations)}}
	},
	"StatefulSet": func(namespace string, annotations map[string]string) client.Object {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template(annotations)}}
	},
	"DaemonSet": func(namespace string, annotations map[string]string) client.Object {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template(annotations)}}
	},
	"ReplicaSet": func(namespace string, annotations map[string]string) client.Object {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template(annotations)}}
	},
	"Job": func(namespace string, annotations map[string]string) client.Object {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: batchv1.JobSpec{Template: onceOnly(template(annotations))}}
	},
	"CronJob": func(namespace string, annotations map[string]string) client.Object {
		job := batchv1.JobSpec{Template: onceOnly(template(annotations))}
		return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}
	},
}

var selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

func template(annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: annotations},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"no": "node"}, Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
}

func onceOnly(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return t
}

// templateOf returns the metadata of the object's pod template, or nil.
func templateOf(obj client.Object) *metav1.ObjectMeta {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.ObjectMeta
	case *appsv1.StatefulSet:
		return &o.Spec.Template.ObjectMeta
	case *appsv1.DaemonSet:
		return &o.Spec.Template.ObjectMeta
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.ObjectMeta
	case *batchv1.Job:
		return &o.Spec.Template.ObjectMeta
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.ObjectMeta
	}
	return nil
}

// parse returns all that the component that reads the object finds wrong with its
// annotations, with the limits of a signer that is started without flags.
func parse(obj client.Object, limits api.Limits) []error {
	var errs []error
	switch o := obj.(type) {
	case *corev1.Service:
		_, errs = api.ParseSettings(o.Annotations)
		if _, err := api.ParseProbe(o); err != nil {
			errs = append(errs, err)
		}
		svc := o.DeepCopy()
		if _, ok := svc.Annotations[api.AnnotationSecretName]; !ok {
			svc.Annotations[api.AnnotationSecretName] = "web-tls"
		}
		if _, err := api.Parse(svc, limits); err != nil {
			errs = append(errs, err)
		}
	case *corev1.Namespace:
		_, errs = api.ParseSettings(o.Annotations)
	case *corev1.ConfigMap:
		if problem := trust.RequestOf(o, false).Problem; problem != "" {
			errs = append(errs, fmt.Errorf("%s", problem))
		}
		if o.Name == api.CAStatusName {
			if _, err := api.ParseRotateRequest(o.Annotations); err != nil {
				errs = append(errs, err)
			}
		}
	default:
		if _, err := api.ParsePod(templateOf(obj)); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// field is what a refusal names.
func (c annotationCase) field() string {
	if c.names != "" {
		return c.names
	}
	return c.key
}

func (c annotationCase) object(namespace string) client.Object {
	annotations := map[string]string{c.key: strings.ReplaceAll(c.value, "%s", namespace)}
	for key, value := range c.beside {
		annotations[key] = value
	}
	obj := makers[c.on](namespace, annotations)
	if c.service != nil {
		c.service(obj.(*corev1.Service))
	}
	return obj
}

// TestWrongAnnotationsAreRefusedWhenTheyAreWritten: the policies and the parsers of pkg/api
// agree about every value, except for those that the policies leave to the condition.
func TestWrongAnnotationsAreRefusedWhenTheyAreWritten(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	for _, c := range annotationCases() {
		name := fmt.Sprintf("%s %s=%s", c.on, strings.TrimPrefix(c.key, api.Domain+"/"), api.Shorten(c.value, 30))
		t.Run(name, func(t *testing.T) {
			obj := c.object(namespace)
			errs := parse(obj, api.DefaultLimits())
			err := admin.Create(t.Context(), obj, client.DryRunAll)
			switch {
			case c.left:
				assert.NotEmpty(t, errs, "the parser")
				assert.NoError(t, err, "the policy")
			case c.words == "":
				assert.Empty(t, errs, "the parser")
				assert.NoError(t, err, "the policy")
			default:
				require.Len(t, errs, 1, "the parser")
				assert.ErrorContains(t, errs[0], c.words, "the parser")
				assert.ErrorContains(t, err, "ValidatingAdmissionPolicy")
				assert.ErrorContains(t, err, c.words, "the policy")
				assert.ErrorContains(t, err, c.field()+": ")
				assert.ErrorContains(t, errs[0], c.field()+": ")
			}
		})
	}
}

// oldNamespace has objects with wrong annotations that were there before the policies.
const oldNamespace = "before-the-policies"

// wrongOnes are a wrong annotation for each kind that can be changed.
var wrongOnes = map[string]string{
	"Service": api.AnnotationDuration, "Namespace": api.AnnotationMode, "ConfigMap": api.AnnotationInjectCABundle,
	"Deployment": api.AnnotationMode, "StatefulSet": api.AnnotationMode, "DaemonSet": api.AnnotationMode,
	"ReplicaSet": api.AnnotationMode, "CronJob": api.AnnotationMode,
}

func oldObject(on string) client.Object {
	obj := makers[on](oldNamespace, map[string]string{wrongOnes[on]: "wrong"})
	if on == "Namespace" {
		obj.SetGenerateName("")
		obj.SetName(oldNamespace + "-too")
	}
	return obj
}

// makeOldObjects is called before install.yaml is applied.
func makeOldObjects(ctx context.Context, admin client.Client) error {
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: oldNamespace}}); err != nil {
		return err
	}
	for on := range wrongOnes {
		if err := admin.Create(ctx, oldObject(on)); err != nil {
			return err
		}
	}
	return nil
}

// TestWhatWasThereBeforeIsLeftAlone: an object with a wrong value can be changed in every
// other way, and applied again as it is.
func TestWhatWasThereBeforeIsLeftAlone(t *testing.T) {
	admin := adminClient(t)
	for on, key := range wrongOnes {
		t.Run(on, func(t *testing.T) {
			obj := oldObject(on)
			patch := func(patch string) error {
				return admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)))
			}
			require.NoError(t, patch(`{"metadata":{"labels":{"a":"b"}}}`), "a label")
			require.NoError(t, patch(`{"metadata":{"annotations":{"example.com/a":"b"}}}`), "another annotation")
			require.NoError(t, patch(`{"metadata":{"finalizers":["example.com/a"]}}`), "a finalizer")
			require.NoError(t, patch(`{"metadata":{"finalizers":null}}`), "a finalizer away")
			require.NoError(t, patch(at(on, key, "wrong")), "the same value")
			require.ErrorContains(t, patch(at(on, key, "other")), "ValidatingAdmissionPolicy", "another wrong value")
			if on == "Deployment" {
				rollsOut(t, obj)
			}
			require.NoError(t, patch(at(on, key, nil)), "the annotation away")
			require.ErrorContains(t, patch(at(on, key, "wrong")), "ValidatingAdmissionPolicy", "the value again")
			require.NoError(t, admin.Delete(t.Context(), obj))
		})
	}
}

// rollsOut changes the image of a Deployment, and waits for its new ReplicaSet, which has
// the wrong value too.
func rollsOut(t *testing.T, deployment client.Object) {
	t.Helper()
	admin := adminClient(t)
	image := `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}}}`
	require.NoError(t, admin.Patch(t.Context(), deployment, client.RawPatch(types.StrategicMergePatchType, []byte(image))))
	harness.Eventually(t, func() error {
		var sets appsv1.ReplicaSetList
		if err := admin.List(t.Context(), &sets, client.InNamespace(oldNamespace)); err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Spec.Template.Spec.Containers[0].Image == "example.com/web:2" {
				return nil
			}
		}
		return fmt.Errorf("no ReplicaSet with the new image among %d", len(sets.Items))
	})
}

// at is a patch of an annotation where servingcert reads it.
func at(on, key string, value any) string {
	inner, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		panic(err)
	}
	switch on {
	case "Service", "Namespace", "ConfigMap":
		return string(inner)
	case "CronJob":
		return fmt.Sprintf(`{"spec":{"jobTemplate":{"spec":{"template":%s}}}}`, inner)
	}
	return fmt.Sprintf(`{"spec":{"template":%s}}`, inner)
}
