package world

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup copies what etcd holds, as a person does who has no other tool: API server and etcd
// are stopped meanwhile. It returns the copy.
func (w *World) Backup(ctx context.Context) (string, error) {
	copied := w.Path("etcd-backup")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	w.Plane.StopAPIServer()
	w.Plane.StopEtcd()
	if err := os.CopyFS(copied, os.DirFS(w.Plane.EtcdDir())); err != nil {
		return "", err
	}
	return copied, w.startAgain(ctx)
}

// Restore has etcd hold what it held when the copy was made, and restarts the controllers of
// Kubernetes, as its documentation says. The other processes go on.
func (w *World) Restore(ctx context.Context, copied string) error {
	w.Plane.StopAPIServer()
	w.Plane.StopEtcd()
	w.Observer.Rewound()
	dir := w.Plane.EtcdDir()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // etcd insists
		return err
	}
	w.Plane.StopControllerManager()
	if err := w.startAgain(ctx); err != nil {
		return err
	}
	return w.Plane.StartControllerManager(ctx)
}

// Secrets returns those of the Services that were created.
func (w *World) Secrets(ctx context.Context, work *Work) ([]corev1.Secret, error) {
	var out []corev1.Secret
	for at := range work.created {
		secret, err := w.Clientset.CoreV1().Secrets(at.namespace).Get(ctx, at.name+"-tls", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, *secret)
	}
	return out, nil
}

// PutBack creates Secrets that the cluster does not know any more, with the owners that they
// had.
func (w *World) PutBack(ctx context.Context, secrets []corev1.Secret) error {
	for _, s := range secrets {
		meta := metav1.ObjectMeta{Name: s.Name, Labels: s.Labels, Annotations: s.Annotations, OwnerReferences: s.OwnerReferences}
		_, err := w.Clientset.CoreV1().Secrets(s.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: s.Type, Data: s.Data}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) { // a signer was quicker
			return err
		}
	}
	return nil
}

func (w *World) startAgain(ctx context.Context) error {
	if err := w.Plane.StartEtcd(ctx); err != nil {
		return err
	}
	return w.Plane.StartAPIServer(ctx)
}
