package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	// foreignName is that of what is not ours, in every namespace.
	foreignName = "foreign"
	// unlabelled is a namespace that has not opted in.
	unlabelled = "unlabelled"
	// writers is how many Services are created at a time.
	writers = 8
	// headless is one Service in so many.
	headless = 10
)

// serviceOf returns a Service that asks for Secret NAME-tls and selects app=NAME.
func serviceOf(at place, headless bool) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: at.name, Annotations: map[string]string{api.AnnotationSecretName: at.name + "-tls"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": at.name},
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(port)}},
		},
	}
	if headless {
		svc.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return svc
}

// populate makes the namespaces, what is foreign in them, and the Services, and waits until
// each Service has its Secret.
func (w *World) populate(ctx context.Context) error {
	w.Say("creating %d Services in %d namespaces", w.options.Services, w.options.Namespaces)
	for n := range w.options.Namespaces {
		if err := w.newNamespace(ctx, namespaceOf(n), map[string]string{api.LabelInject: api.InjectEnabled}); err != nil {
			return err
		}
	}
	if err := w.newNamespace(ctx, unlabelled, nil); err != nil {
		return err
	}
	for n := range w.options.Services {
		w.places = append(w.places, place{namespaceOf(n % w.options.Namespaces), fmt.Sprintf("svc-%03d", n)})
	}
	errs := make(chan error, writers)
	var working sync.WaitGroup
	for first := range writers {
		working.Go(func() {
			for n := first; n < len(w.places); n += writers {
				if _, err := w.Clientset.CoreV1().Services(w.places[n].namespace).Create(ctx, serviceOf(w.places[n], n%headless == 0), metav1.CreateOptions{}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	working.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	start := time.Now()
	if err := installed.Until(ctx, "each Service has its Secret", w.sound); err != nil {
		return err
	}
	w.Say("each Service has its Secret, after %.1f s", time.Since(start).Seconds())
	var err error
	w.foreign, err = w.foreigners(ctx)
	return err
}

func namespaceOf(n int) string { return fmt.Sprint("tenant-", n) }

// newNamespace makes a namespace, and in it what the three must leave alone.
func (w *World) newNamespace(ctx context.Context, name string, labels map[string]string) error {
	core := w.Clientset.CoreV1()
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := installed.Until(ctx, "ServiceAccount default of namespace "+name, func(ctx context.Context) error {
		_, err := core.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: foreignName}
	plain := serviceOf(place{name, foreignName}, false)
	if labels != nil {
		plain.Annotations = nil // where nobody opted in, one that asks is foreign too
	}
	taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: conflict.name + "-tls"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: []byte("not a certificate"), corev1.TLSPrivateKeyKey: []byte("not a key"),
	}}
	_, err := core.Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": "secret"}}, metav1.CreateOptions{})
	_, err2 := core.Secrets(name).Create(ctx, taken, metav1.CreateOptions{})
	_, err3 := core.ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{api.BundleKey: "not a bundle"}}, metav1.CreateOptions{})
	_, err4 := core.Services(name).Create(ctx, plain, metav1.CreateOptions{})
	_, err5 := core.Services(name).Create(ctx, serviceOf(place{name, conflict.name}, false), metav1.CreateOptions{})
	return errors.Join(err, err2, err3, err4, err5)
}

// conflict is a Service, in every namespace, that asks for a Secret which is somebody else's.
var conflict = place{name: "conflict"}

// foreigners returns the versions of what the three must leave alone.
func (w *World) foreigners(ctx context.Context) (map[string]invariant.Version, error) {
	out := map[string]invariant.Version{}
	note := func(kind string, meta metav1.ObjectMeta) {
		out[fmt.Sprintf("%s %s/%s", kind, meta.Namespace, meta.Name)] = invariant.Version{UID: string(meta.UID), ResourceVersion: meta.ResourceVersion}
	}
	named := metav1.ListOptions{FieldSelector: "metadata.name=" + foreignName}
	secrets, err := w.Clientset.CoreV1().Secrets("").List(ctx, named)
	if err != nil {
		return nil, err
	}
	for i := range secrets.Items {
		note("Secret", secrets.Items[i].ObjectMeta)
	}
	taken, err := w.Clientset.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + conflict.name + "-tls"})
	if err != nil {
		return nil, err
	}
	for i := range taken.Items {
		note("Secret", taken.Items[i].ObjectMeta)
	}
	configMaps, err := w.Clientset.CoreV1().ConfigMaps("").List(ctx, named)
	if err != nil {
		return nil, err
	}
	for i := range configMaps.Items {
		note("ConfigMap", configMaps.Items[i].ObjectMeta)
	}
	services, err := w.Clientset.CoreV1().Services("").List(ctx, named)
	if err != nil {
		return nil, err
	}
	for i := range services.Items {
		note("Service", services.Items[i].ObjectMeta)
	}
	return out, nil
}
