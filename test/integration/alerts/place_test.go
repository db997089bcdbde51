//go:build alerts

package alerts

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// port is where all pods listen, each at an address of its own.
const port = 18443

// place is a namespace with Service web, which asks for Secret web-tls, and its pods. There is no kubelet: the test
// says of each pod that it runs.
type place struct {
	t     *testing.T
	whole *testing.T // at whose end its servers end
	name  string
}

// newPlace makes an opted-in namespace with that Service, whose certificate lives for 12 hours: what is stale ends within
// a day.
func newPlace(t, whole *testing.T, name string) place {
	t.Helper()
	p := place{t, whole, name}
	harness.NewNamespace(t, admin, name, true)
	p.service()
	harness.Eventually(t, func() error { return admin.Get(t.Context(), p.key("web-tls"), &corev1.Secret{}) })
	harness.Eventually(t, func() error { // the webhook answers: who makes pods would try again late
		made := template()
		made.Namespace, made.Name = name, "dry"
		return admin.Create(t.Context(), &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}, client.DryRunAll)
	})
	return p
}

func (p place) service() {
	p.t.Helper()
	svc := harness.Service(p.name, "web", api.AnnotationDuration, "12h")
	svc.Spec.Ports[0].Name, svc.Spec.Ports[0].TargetPort = "https", intstr.FromString("https")
	p.create(svc)
}

func (p place) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.name, Name: name}
}

func (p place) create(obj client.Object) {
	p.t.Helper()
	obj.SetNamespace(p.name)
	require.NoError(p.t, admin.Create(p.t.Context(), obj))
}

func (p place) patch(obj client.Object, patch string) {
	p.t.Helper()
	require.NoError(p.t, admin.Patch(p.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// renew asks for another certificate and waits for it.
func (p place) renew() {
	p.t.Helper()
	before, after := &corev1.Secret{}, &corev1.Secret{}
	require.NoError(p.t, admin.Get(p.t.Context(), p.key("web-tls"), before))
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "web"}}
	p.patch(svc, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRenewAfter, time.Now().Add(time.Second).UTC().Format(time.RFC3339)))
	harness.Eventually(p.t, func() error {
		err := admin.Get(p.t.Context(), p.key("web-tls"), after)
		if err == nil && string(before.Data["tls.crt"]) == string(after.Data["tls.crt"]) {
			err = errors.New("the certificate is the same")
		}
		return err
	})
}

// template is that of pods that declare their port, and ask to be restarted. Their flag is of a program that nobody knows.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{api.AnnotationOnRotate: string(api.OnRotateRestart)}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/x", Args: []string{"serve"}, Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: port}},
		}}},
	}
}

// bare makes a pod that nobody else makes.
func (p place) bare() *corev1.Pod {
	p.t.Helper()
	made := template()
	pod := &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
	pod.Name = "web"
	p.create(pod)
	return pod
}

// proxyPort is the name of a port with a proxy.
const proxyPort = "sc-tls-8080"

// proxied makes a pod whose proxy also has the flags. The webhook leaves it alone: pods have no identities here.
func (p place) proxied(flags ...string) *corev1.Pod {
	p.t.Helper()
	made, always := template(), corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
	pod.Name, pod.Labels[api.LabelInject], pod.Annotations = "web", api.InjectDisabled, map[string]string{api.AnnotationAdmits: proxyPort + "=shop/cart"}
	pod.Spec.Containers[0].Ports = nil
	pod.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}}}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: api.ProxyContainer, Image: "example.com/proxy", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: proxyPort, ContainerPort: port}},
		Args:         append([]string{fmt.Sprintf("--listen=%s=%d:8080", proxyPort, port)}, flags...),
		VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}},
	}}
	p.create(pod)
	return pod
}

// deployment makes one that is late after ten seconds, and returns its pod.
func (p place) deployment() *corev1.Pod {
	p.t.Helper()
	one, late := int32(1), int32(10)
	p.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &one, ProgressDeadlineSeconds: &late, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template()},
	})
	var pods corev1.PodList
	harness.Eventually(p.t, func() error {
		err := admin.List(p.t.Context(), &pods, client.InNamespace(p.name))
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("%d pods", len(pods.Items))
		}
		return err
	})
	return &pods.Items[0]
}

// addresses are those that pods have got.
var addresses atomic.Int32

// runs says of the pod that it runs and is ready, at an address where nobody listens.
func (p place) runs(pod *corev1.Pod) (address string) {
	p.t.Helper()
	address = fmt.Sprintf("127.9.%d.%d", addresses.Add(1)/250, 1+addresses.Load()%250)
	require.NoError(p.t, harness.Ready(p.t.Context(), admin, pod, address))
	return address
}

// serves runs the pod as a program that has read its files once, and waits until the rotator has seen it.
func (p place) serves(pod *corev1.Pod) {
	p.t.Helper()
	var secret corev1.Secret
	require.NoError(p.t, admin.Get(p.t.Context(), p.key("web-tls"), &secret))
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	require.NoError(p.t, err)
	rotatortest.AcceptAt(p.whole, fmt.Sprintf("%s:%d", p.runs(pod), port), rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	harness.Eventually(p.t, func() error {
		var svc corev1.Service
		err := admin.Get(p.t.Context(), p.key("web"), &svc)
		if c := api.Condition(&svc, api.ConditionServing); err == nil && (c == nil || c.Status != metav1.ConditionTrue) {
			err = fmt.Errorf("condition Serving is %+v", c)
		}
		return err
	})
}

// crashes says of the pod what the kubelet does when its container has exited a second after its fourth start.
func (p place) crashes(pod *corev1.Pod, message string) {
	p.t.Helper()
	pod.Status = harness.Crashing(message)
	require.NoError(p.t, admin.Status().Update(p.t.Context(), pod))
}
