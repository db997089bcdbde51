package restart

import (
	"crypto"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// place is a namespace with workloads. They go when the test ends, before the
// rotator does.
type place struct {
	t      *testing.T
	name   string
	leaves map[string]string // that conditions Ready name, by Service
}

func newPlace(t *testing.T) place {
	t.Helper()
	return place{t, harness.TemporaryNamespace(t, admin, true), map[string]string{}}
}

func (p place) create(obj client.Object) {
	p.t.Helper()
	obj.SetNamespace(p.name)
	harness.Eventually(p.t, func() error { return admin.Create(p.t.Context(), obj) }) // the namespace's ServiceAccount takes a moment
}

// service makes a Service that selects app=NAME and asks for Secret NAME-tls,
// which it gets.
func (p place) service(name string) {
	p.t.Helper()
	svc := harness.Service(p.name, name)
	svc.Spec.Ports[0].Name, svc.Spec.Ports[0].TargetPort = "https", intstr.FromString("https")
	p.create(svc)
	p.rotate(name)
}

// issued counts certificates. Each is younger than those before.
var issued atomic.Int32

// rotate gives the Service's Secret another certificate, as the signer would, and says so.
func (p place) rotate(name string) {
	p.t.Helper()
	pair := ca.Issue(p.t, time.Now().Add(time.Duration(issued.Add(1))*time.Second-time.Hour/2), name+"."+p.name+".svc")
	keyPEM, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(p.t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name + "-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(pair.Leaf), corev1.TLSPrivateKeyKey: keyPEM},
	}
	if err := admin.Update(p.t.Context(), secret); apierrors.IsNotFound(err) {
		require.NoError(p.t, admin.Create(p.t.Context(), secret))
	} else {
		require.NoError(p.t, err)
	}
	leaf := pki.Fingerprint(pair.Leaf)
	p.leaves[name] = leaf
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: "names", LastTransitionTime: metav1.Now()}
	said := state.Say(ready, state.Ready{Secret: name + "-tls", Leaf: leaf})
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": said.Both()}})
	require.NoError(p.t, err)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}}
	require.NoError(p.t, admin.Status().Patch(p.t.Context(), svc, client.RawPatch(types.StrategicMergePatchType, patch)))
}

// template is that of pods that serve what Secret NAME-tls held when they started.
func template(name string, onRotate api.OnRotate) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": name},
			Annotations: map[string]string{api.AnnotationOnRotate: string(onRotate)},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "example.com/x",
				Ports:        []corev1.ContainerPort{{Name: "https", ContainerPort: 18443}},
				VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}},
			}},
			Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name + "-tls"}}}},
		},
	}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// deployment makes a Service and a Deployment behind it, and waits until it runs.
func (p place) deployment(name string, replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	p.t.Helper()
	p.service(name)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, api.OnRotateRestart)},
	}
	for _, c := range change {
		c(d)
	}
	p.create(d)
	p.ready(name, int(replicas))
	return d
}

func (p place) pods(app string) []corev1.Pod {
	p.t.Helper()
	var list corev1.PodList
	require.NoError(p.t, admin.List(p.t.Context(), &list, client.InNamespace(p.name), client.MatchingLabels{"app": app}))
	return list.Items
}

// ready waits for so many pods of the app that run.
func (p place) ready(app string, n int) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		running := 0
		for _, pod := range p.pods(app) {
			if pod.Status.PodIP != "" && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if running != n {
			return fmt.Errorf("%d pods of %s run, want %d", running, app, n)
		}
		return nil
	})
}

// serving waits until the Service's condition says so of its latest certificate, and returns the
// state beside it.
func (p place) serving(name string, status metav1.ConditionStatus, reason string) (facts state.Serving) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		var svc corev1.Service
		if err := admin.Get(p.t.Context(), types.NamespacedName{Namespace: p.name, Name: name}, &svc); err != nil {
			return err
		}
		c := api.Condition(&svc, api.ConditionServing)
		if facts, _ = state.ServingOf(&svc); c == nil || c.Status != status || c.Reason != reason || facts.Leaf != p.leaves[name] {
			return fmt.Errorf("condition Serving of %s is %+v, want %s %s with leaf %s", name, c, status, reason, p.leaves[name])
		}
		return nil
	})
	return facts
}

// current waits until all pods of the app serve what the Secret holds.
func (p place) current(apps ...string) {
	p.t.Helper()
	for _, app := range apps {
		p.serving(app, metav1.ConditionTrue, "Current")
	}
}

// restartedAt returns the annotation of a workload's template, "" if there is none.
func restartedAt(t *testing.T, w client.Object) string {
	t.Helper()
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(w), w))
	switch w := w.(type) {
	case *appsv1.Deployment:
		return w.Spec.Template.Annotations[restart.AnnotationRestartedAt]
	case *appsv1.StatefulSet:
		return w.Spec.Template.Annotations[restart.AnnotationRestartedAt]
	case *appsv1.DaemonSet:
		return w.Spec.Template.Annotations[restart.AnnotationRestartedAt]
	}
	t.Fatalf("%T has no template", w)
	return ""
}

// told waits for an event about an object of that name, and returns what it says.
func (p place) told(reason, name string) eventsv1.Event {
	p.t.Helper()
	return harness.Told(p.t, admin, p.name, reason, name)
}

func (p place) events(reason, name string) []eventsv1.Event {
	p.t.Helper()
	return harness.Events(p.t, admin, p.name, reason, name)
}

// restarts waits until so many restarts are counted, which they are a moment after they can be seen.
func restarts(t *testing.T, r *harness.Rotator, want float64) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n := r.Metrics(t).Sum("servingcert_restarts_total"); n != want {
			return fmt.Errorf("%v restarts are counted, want %v", n, want)
		}
		return nil
	})
}

// held waits until the metric counts a workload of the namespace for that reason.
func (p place) held(r *harness.Rotator, reason string) {
	p.t.Helper()
	harness.Eventually(p.t, func() error {
		if n := r.Metrics(p.t).Sum("servingcert_restarts_held", "namespace", p.name, "reason", reason); n < 1 {
			return fmt.Errorf("no workload of %s is held for %s", p.name, reason)
		}
		return nil
	})
}
