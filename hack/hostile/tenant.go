package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// tenant is a ServiceAccount with full rights in one namespace, which is opted in.
type tenant struct {
	namespace string
	clientset kubernetes.Interface
	client    client.Client
	config    *rest.Config
}

// newTenant makes a namespace, and in it a ServiceAccount that has ClusterRole admin
// there and may write pods/status, which is a kubelet's part.
func (w *world) newTenant(ctx context.Context, namespace string) (*tenant, error) {
	const name = "tenant"
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	admin := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}}
	node := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubelet"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}}},
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: node.ObjectMeta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: node.Name}}
	_, err := w.Clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled}},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = w.Clientset.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = w.Clientset.RbacV1().Roles(namespace).Create(ctx, node, metav1.CreateOptions{})
	}
	for _, b := range []*rbacv1.RoleBinding{admin, binding} {
		if err == nil {
			_, err = w.Clientset.RbacV1().RoleBindings(namespace).Create(ctx, b, metav1.CreateOptions{})
		}
	}
	if err == nil {
		err = w.grantRequests(ctx, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("tenant of namespace %s: %w", namespace, err)
	}
	t := &tenant{namespace: namespace}
	if t.config, err = w.Plane.ServiceAccountConfig(ctx, namespace, name); err != nil {
		return nil, err
	}
	t.config.ContentType = "application/vnd.kubernetes.protobuf"
	if t.clientset, err = kubernetes.NewForConfig(t.config); err != nil {
		return nil, err
	}
	if t.client, err = client.New(t.config, client.Options{}); err != nil {
		return nil, err
	}
	return t, installed.Until(ctx, "rights and ServiceAccount default of namespace "+namespace, func(ctx context.Context) error {
		_, err := t.clientset.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// remove deletes the tenant's namespace, and waits until all that was in it is gone.
func (w *world) remove(ctx context.Context, t *tenant) error {
	if err := w.Clientset.CoreV1().Namespaces().Delete(ctx, t.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return installed.Until(ctx, "the end of namespace "+t.namespace, func(ctx context.Context) error {
		_, err := w.Clientset.CoreV1().Namespaces().Get(ctx, t.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

func (t *tenant) pods() typedcorev1.PodInterface { return t.clientset.CoreV1().Pods(t.namespace) }
func (t *tenant) services() typedcorev1.ServiceInterface {
	return t.clientset.CoreV1().Services(t.namespace)
}
func (t *tenant) secrets() typedcorev1.SecretInterface {
	return t.clientset.CoreV1().Secrets(t.namespace)
}
func (t *tenant) configMaps() typedcorev1.ConfigMapInterface {
	return t.clientset.CoreV1().ConfigMaps(t.namespace)
}
func (t *tenant) deployments() typedappsv1.DeploymentInterface {
	return t.clientset.AppsV1().Deployments(t.namespace)
}

// atOnce deletes without grace.
func atOnce() metav1.DeleteOptions {
	var none int64
	return metav1.DeleteOptions{GracePeriodSeconds: &none}
}

// annotate sets annotations of a Service.
func (t *tenant) annotate(ctx context.Context, service string, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = t.services().Patch(ctx, service, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// renew asks for a new certificate, as kubectl servingcert renew does, but for the time:
// the next whole second would be a wait. So it must be called in the beginning of a
// second, and not in that in which the last certificate was issued.
func (t *tenant) renew(ctx context.Context, service string) error {
	return t.annotate(ctx, service, map[string]string{api.AnnotationRenewAfter: time.Now().UTC().Format(time.RFC3339)})
}

// runs says of a pod what a kubelet does: that it runs at an address, and whether it is
// ready.
func (t *tenant) runs(ctx context.Context, pod, address string, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &now,
		Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: status, LastTransitionTime: now},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: now},
		},
	}})
	if err != nil {
		return err
	}
	_, err = t.pods().Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// nextSecond waits for the beginning of a second.
func nextSecond(ctx context.Context) bool {
	now := time.Now()
	return process.Sleep(ctx, now.Truncate(time.Second).Add(time.Second+time.Millisecond).Sub(now))
}
