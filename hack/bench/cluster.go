package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
)

// bench is a cluster in which the signer is measured.
type bench struct {
	options
	*installed.Cluster
	table  [][]string
	env    []string // for the next process
	issued int      // certificates that the signer checks when it starts
}

// Namespaces. In the first, Services exist before the signer starts; in the second, they are created
// one by one. Pods request certificates in the third. The others have not opted in: they contain foreign Secrets, and the objects of the bare client.
const (
	coldNamespace    = "cold"
	singleNamespace  = "single"
	podsNamespace    = "pods"
	foreignNamespace = "foreign"
	floorNamespace   = "floor"
)

func (b *bench) makeNamespaces(ctx context.Context) error {
	for i, name := range []string{coldNamespace, singleNamespace, podsNamespace, foreignNamespace, floorNamespace} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if i < 3 {
			object.Labels = map[string]string{api.LabelInject: api.InjectEnabled}
		}
		if _, err := b.Clientset.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// row adds a row to the table.
func (b *bench) row(what, budget, format string, args ...any) {
	b.table = append(b.table, []string{what, fmt.Sprintf(format, args...), budget})
}

func serviceName(i int) string { return fmt.Sprintf("service-%05d", i) }
func secretName(i int) string  { return serviceName(i) + "-tls" }

// makeService creates the i-th Service of a namespace, with annotations.
func (b *bench) makeService(ctx context.Context, namespace string, i int, annotations map[string]string) error {
	_, err := b.Clientset.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Annotations: annotations},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, // allocating 10 000 addresses is not measured
			Selector:  map[string]string{"app": serviceName(i)},
			Ports:     []corev1.ServicePort{{Name: "https", Port: 443}},
		},
	}, metav1.CreateOptions{})
	return err
}

// asks returns the annotation with which the i-th Service asks for a certificate.
func asks(i int) map[string]string { return map[string]string{api.AnnotationSecretName: secretName(i)} }

// clear deletes Services and Secrets, so that they are not in the signer's caches.
func (b *bench) clear(ctx context.Context, namespace string) error {
	for _, resource := range []string{"secrets", "services"} {
		if err := b.Clientset.CoreV1().RESTClient().Delete().Namespace(namespace).Resource(resource).Do(ctx).Error(); err != nil {
			return fmt.Errorf("delete the %s of namespace %s: %w", resource, namespace, err)
		}
	}
	return nil
}
