package installed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Port is what the pods of tenants declare and serve at.
const Port = 8443

// Tenant is a ServiceAccount with full rights in one namespace, which is opted in.
type Tenant struct {
	client.WithWatch
	Namespace string
	Config    *rest.Config
}

// NewTenant makes a namespace, and in it a ServiceAccount that has ClusterRole admin there and may
// write pods/status, which is a kubelet's part.
func (c *Cluster) NewTenant(ctx context.Context, namespace string) (*Tenant, error) {
	t := &Tenant{Namespace: namespace}
	account := metav1.ObjectMeta{Namespace: namespace, Name: t.account()}
	err := c.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}})
	if err == nil {
		err = c.Admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: account})
	}
	if err == nil {
		err = c.Grant(ctx, t, namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}})
	}
	if err == nil {
		t.Config, err = c.Plane.ServiceAccountConfig(ctx, namespace, account.Name)
	}
	if err == nil {
		t.WithWatch, err = client.NewWithWatch(t.Config, client.Options{})
	}
	if err != nil {
		return nil, fmt.Errorf("tenant of namespace %s: %w", namespace, err)
	}
	return t, Until(ctx, "the rights of the tenant of namespace "+namespace, func(ctx context.Context) error {
		return t.Get(ctx, t.Key("default"), &corev1.ServiceAccount{})
	})
}

func (*Tenant) account() string { return "tenant" }

// Grant gives a tenant ClusterRole admin in a namespace, and what the rule says.
func (c *Cluster) Grant(ctx context.Context, t *Tenant, namespace string, rule rbacv1.PolicyRule) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.Namespace, Name: t.account()}}
	own := metav1.ObjectMeta{Namespace: namespace, Name: t.account()}
	if err := c.Admin.Create(ctx, &rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{rule}}); err != nil {
		return err
	}
	for name, kind := range map[string]string{own.Name: "Role", "admin": "ClusterRole"} {
		err := c.Admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes the tenant's namespace, and waits until all that was in it is gone.
func (c *Cluster) Remove(ctx context.Context, t *Tenant) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}}
	if err := c.Admin.Delete(ctx, namespace); err != nil {
		return err
	}
	return Until(ctx, "the end of namespace "+t.Namespace, func(ctx context.Context) error {
		if err := c.Admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}

// Key is that of an object of the tenant.
func (t *Tenant) Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: t.Namespace, Name: name}
}

// own has an object be in the tenant's namespace, unless it is in one.
func (t *Tenant) own(o client.Object) {
	if o.GetNamespace() == "" {
		o.SetNamespace(t.Namespace)
	}
}

// Add creates an object in the tenant's namespace, unless it names another one.
func (t *Tenant) Add(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	t.own(o)
	return t.Create(ctx, o, options...)
}

// Replace deletes what has the name of an object, and creates the object.
func (t *Tenant) Replace(ctx context.Context, o client.Object) error {
	t.own(o)
	if err := t.Delete(ctx, o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		return err
	}
	return t.Create(ctx, o)
}

// Merge merges fields into an object, or into its status if there is one among them. The object then is
// as the API server has it.
func (t *Tenant) Merge(ctx context.Context, o client.Object, fields map[string]any) error {
	t.own(o)
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.StrategicMergePatchType, data)
	if fields["status"] != nil {
		return t.Status().Patch(ctx, o, patch)
	}
	return t.Patch(ctx, o, patch)
}

// Annotate sets annotations of a Service, and returns it.
func (t *Tenant) Annotate(ctx context.Context, service string, annotations map[string]string) (*corev1.Service, error) {
	svc := ServiceOf(service)
	return svc, t.Merge(ctx, svc, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// Renew asks for a new certificate, as kubectl servingcert renew does, but for the time: the next
// whole second would be a wait. So it must be called in the beginning of a second, and not in that
// in which the last certificate was issued.
func (t *Tenant) Renew(ctx context.Context, service string) (*corev1.Service, error) {
	return t.Annotate(ctx, service, map[string]string{api.AnnotationRenewAfter: time.Now().UTC().Format(time.RFC3339)})
}

// Await waits until a Service, which was read before, is as wanted, and returns it. The watch ends
// after a moment, for the Service to be read again: where etcd was put back, a watch from a revision
// that does not exist any more brings nothing.
func (t *Tenant) Await(ctx context.Context, svc *corev1.Service, what string, wanted func(*corev1.Service) bool) (*corev1.Service, error) {
	for !wanted(svc) {
		if changed := t.watch(ctx, svc, wanted); changed != nil {
			return changed, nil
		}
		if !process.Sleep(ctx, poll) {
			return nil, fmt.Errorf("Service %s/%s: %s: %w", t.Namespace, svc.Name, what, context.Cause(ctx))
		}
		latest := &corev1.Service{}
		if err := t.Get(ctx, t.Key(svc.Name), latest); err == nil {
			svc = latest
		}
	}
	return svc, nil
}

func (t *Tenant) watch(ctx context.Context, svc *corev1.Service, wanted func(*corev1.Service) bool) *corev1.Service {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	events, err := t.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(t.Namespace), client.MatchingFields{"metadata.name": svc.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: svc.ResourceVersion}})
	if err != nil {
		return nil
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if changed, ok := event.Object.(*corev1.Service); ok && wanted(changed) {
			return changed
		}
	}
	return nil
}

// ServiceOf returns a headless Service that asks for Secret NAME-tls and selects app=NAME.
func ServiceOf(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(Port)}},
		},
	}
}

// PodOf returns a pod with label app=APP.
func PodOf(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/server", Ports: []corev1.ContainerPort{{ContainerPort: Port}}}}},
	}
}

// DeploymentOf returns a Deployment whose pods a Kubelet runs.
func DeploymentOf(name string, replicas int32, onRotate api.OnRotate) *appsv1.Deployment {
	pod := PodOf("", name)
	pod.Labels[runBy] = kubeletName
	pod.Annotations = map[string]string{api.AnnotationOnRotate: string(onRotate)}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
}

// SecretOf returns a Secret of type kubernetes.io/tls. The API server demands both keys.
func SecretOf(name string, labels map[string]string, certPEM, keyPEM []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}
}

// LeafOf returns the fingerprint that the signer names, or nothing.
func LeafOf(svc *corev1.Service) string {
	leaf, _ := state.LeafOf(svc)
	return leaf
}

// IsReady reports whether the Service has its certificate.
func IsReady(svc *corev1.Service) bool {
	c := api.Condition(svc, api.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && LeafOf(svc) != ""
}

// IsServed reports whether the pods are seen to serve the leaf that the signer names.
func IsServed(svc *corev1.Service) bool {
	c := api.Condition(svc, api.ConditionServing)
	said, _ := state.ServingOf(svc)
	return c != nil && c.Status == metav1.ConditionTrue && LeafOf(svc) != "" && said.Leaf == LeafOf(svc)
}
