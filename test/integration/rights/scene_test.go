package rights

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// port is where all pods listen.
const port = "18443"

func create(t *testing.T, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error { return client.IgnoreAlreadyExists(admin.Create(t.Context(), obj)) })
}

// manifest creates the object of a manifest.
func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
	create(t, obj)
	return obj
}

// patch sends a JSON merge patch of an object.
func patch(t *testing.T, obj client.Object, format string, args ...any) {
	t.Helper()
	harness.Eventually(t, func() error {
		return admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
	})
}

// newService makes Service web of the namespace, with an annotation that asks for
// Secret web-tls, and waits until it has it.
func newService(t *testing.T, namespace, annotation string) *corev1.Service {
	t.Helper()
	svc := harness.Service(namespace, "web")
	svc.Annotations, svc.Spec.Ports[0].Port = map[string]string{annotation: "web-tls"}, 18443
	create(t, svc)
	harness.AwaitSecret(t, admin, namespace, "web-tls")
	return svc
}

// renew asks for a new certificate of Service web, and waits for it.
func renew(t *testing.T, namespace string) {
	t.Helper()
	before := harness.AwaitSecret(t, admin, namespace, "web-tls").Data[corev1.TLSCertKey]
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	harness.Eventually(t, func() error {
		// Times have no parts of a second: one that was issued in this second is not older.
		patch(t, svc, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRenewAfter, time.Now().UTC().Format(time.RFC3339))
		if string(harness.AwaitSecret(t, admin, namespace, "web-tls").Data[corev1.TLSCertKey]) == string(before) {
			return fmt.Errorf("Secret %s/web-tls has the certificate of before", namespace)
		}
		return nil
	})
}

// isWoken waits until the pod has the annotation that makes its kubelet look.
func isWoken(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Annotations[api.AnnotationLeaf] == "" {
			return fmt.Errorf("pod %s/%s is not woken", pod.Namespace, pod.Name)
		}
		return nil
	})
}

// template is that of pods with a container that declares a port.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "web", "pod-template-hash": "abc"},
			Annotations: map[string]string{api.AnnotationOnRotate: string(api.OnRotateRestart)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1", Args: []string{"--port=18443"}, Ports: []corev1.ContainerPort{{ContainerPort: 18443}},
		}}},
	}
}

// workload makes a workload called web as its controller leaves it when it is
// rolled out, and returns it with the owner that its pods have.
func workload(t *testing.T, namespace, kind string) (client.Object, metav1.OwnerReference) {
	t.Helper()
	yes, one := true, int32(1)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "web"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	var obj client.Object
	switch kind {
	case "Deployment":
		obj = &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template()}}
	case "StatefulSet":
		obj = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: selector, Template: template()}}
	case "DaemonSet":
		obj = &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template()}}
	}
	create(t, obj)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: obj.GetUID(), Controller: &yes}
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		obj.Status = appsv1.DeploymentStatus{ObservedGeneration: obj.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		owner.Kind, owner.Name = "ReplicaSet", "web-abc"
	case *appsv1.StatefulSet:
		obj.Status = appsv1.StatefulSetStatus{ObservedGeneration: obj.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, CurrentRevision: "r", UpdateRevision: "r"}
	case *appsv1.DaemonSet:
		obj.Status = appsv1.DaemonSetStatus{ObservedGeneration: obj.Generation, DesiredNumberScheduled: 1, CurrentNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: 1, NumberAvailable: 1}
	}
	require.NoError(t, admin.Status().Update(t.Context(), obj))
	return obj, owner
}

// newPod makes a pod, which the webhook injects.
func newPod(t *testing.T, namespace, name string, owner metav1.OwnerReference) *corev1.Pod {
	t.Helper()
	of := template()
	pod := &corev1.Pod{ObjectMeta: of.ObjectMeta, Spec: of.Spec}
	pod.Namespace, pod.Name, pod.OwnerReferences = namespace, name, []metav1.OwnerReference{owner}
	harness.Eventually(t, func() error { // the webhook's cache may not have the Service yet
		dry := pod.DeepCopy()
		if err := admin.Create(t.Context(), dry, client.DryRunAll); err != nil {
			return err
		}
		if dry.Labels[api.LabelInjected] == "" {
			return fmt.Errorf("pod %s is not injected: %v", name, dry.Annotations)
		}
		return nil
	})
	create(t, pod)
	return pod
}

// serves has the pod serve, until the test ends, what its Secret holds now: it does
// not reload.
func serves(t *testing.T, pod *corev1.Pod, ip string) {
	t.Helper()
	secret := harness.AwaitSecret(t, admin, pod.Namespace, "web-tls")
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	rotatortest.AcceptAt(t, net.JoinHostPort(ip, port), rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}}))
	require.NoError(t, harness.Ready(t.Context(), admin, pod, ip))
}

// crashes says of the pod what the kubelet does when its program does not know a
// flag.
func crashes(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pod.Status = harness.Crashing("unknown flag: --tls-cert-file\n")
	require.NoError(t, admin.Status().Update(t.Context(), pod))
}

// isReported waits until the rotator says of Service web that its pods fail.
func isReported(t *testing.T, namespace string) {
	t.Helper()
	harness.Eventually(t, func() error {
		svc := &corev1.Service{}
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, svc)
		if err == nil && api.Condition(svc, api.ConditionPodsHealthy) == nil {
			err = fmt.Errorf("Service %s/web has no condition %s", namespace, api.ConditionPodsHealthy)
		}
		return err
	})
}

func isGone(t *testing.T, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil && obj.GetDeletionTimestamp() == nil {
			return fmt.Errorf("%s/%s is there", obj.GetNamespace(), obj.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// isRestarted waits until the workload's template has the annotation of kubectl
// rollout restart.
func isRestarted(t *testing.T, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		text, err := json.Marshal(obj)
		require.NoError(t, err)
		var w struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		require.NoError(t, json.Unmarshal(text, &w))
		if w.Spec.Template.Annotations[restart.AnnotationRestartedAt] == "" {
			return fmt.Errorf("%T %s is not restarted", obj, obj.GetNamespace())
		}
		return nil
	})
}

// statusSays waits until a ConfigMap of ours has the value.
func statusSays(t *testing.T, name, key string, is func(string) bool) {
	t.Helper()
	cm := &corev1.ConfigMap{}
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: name}, cm); err != nil {
			return err
		}
		if !is(cm.Data[key]) {
			return fmt.Errorf("%s: %s is %q; all of it: %v", name, key, cm.Data[key], cm.Data)
		}
		return nil
	})
}
