package succession

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
)

// mounts holds what pods of a namespace can mount: its TLS Secrets and its bundle. Watches
// keep it up to date, as they do for kubelets. Forty reads a second, for each test that ran,
// took more CPU than the handshakes.
type mounts struct {
	admin     kubernetes.Interface
	namespace string

	secrets       map[string]*corev1.Secret
	bundle        *corev1.ConfigMap
	secretChanges watch.Interface // nil, as bundleChanges is, if a watch has ended
	bundleChanges watch.Interface
}

// open reads everything and begins to watch it.
func (m *mounts) open(ctx context.Context) error {
	m.close()
	core := m.admin.CoreV1()
	ofSecrets := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS)).String()}
	secrets, err := core.Secrets(m.namespace).List(ctx, ofSecrets)
	if err != nil {
		return err
	}
	ofBundle := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, api.BundleName).String()}
	bundles, err := core.ConfigMaps(m.namespace).List(ctx, ofBundle)
	if err != nil {
		return err
	}
	ofSecrets.ResourceVersion, ofBundle.ResourceVersion = secrets.ResourceVersion, bundles.ResourceVersion
	secretChanges, err := core.Secrets(m.namespace).Watch(ctx, ofSecrets)
	if err != nil {
		return err
	}
	bundleChanges, err := core.ConfigMaps(m.namespace).Watch(ctx, ofBundle)
	if err != nil {
		secretChanges.Stop()
		return err
	}
	m.secretChanges, m.bundleChanges = secretChanges, bundleChanges
	m.secrets, m.bundle = map[string]*corev1.Secret{}, nil
	for i := range secrets.Items {
		m.apply(watch.Event{Type: watch.Added, Object: &secrets.Items[i]})
	}
	for i := range bundles.Items {
		m.apply(watch.Event{Type: watch.Added, Object: &bundles.Items[i]})
	}
	return nil
}

// close ends the watches.
func (m *mounts) close() {
	for _, w := range []watch.Interface{m.secretChanges, m.bundleChanges} {
		if w != nil {
			w.Stop()
		}
	}
	m.secretChanges, m.bundleChanges = nil, nil
}

// update takes in what has changed. Where a watch has ended, as each does after some
// minutes, everything is read anew: its error is that nothing could be read.
func (m *mounts) update(ctx context.Context) error {
	for m.secretChanges != nil {
		var event watch.Event
		select {
		case event = <-m.secretChanges.ResultChan():
		case event = <-m.bundleChanges.ResultChan():
		default:
			return nil
		}
		if event.Object == nil || event.Type == watch.Error { // ended, or too old to go on from
			break
		}
		m.apply(event)
	}
	return m.open(ctx)
}

func (m *mounts) apply(event watch.Event) {
	gone := event.Type == watch.Deleted
	switch object := event.Object.(type) {
	case *corev1.Secret:
		if m.secrets[object.Name] = object; gone {
			delete(m.secrets, object.Name)
		}
	case *corev1.ConfigMap:
		if m.bundle = object; gone {
			m.bundle = nil
		}
	}
}
