package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// serviceStatus is a Service that has, or asks for, a certificate, in the form of
// -o json.
type serviceStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Secret    string `json:"secret,omitempty"`
	// Ready is the condition's status: True, False or Unknown; "" if there is none.
	Ready   string `json:"ready,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Leaf    string `json:"leaf,omitempty"` // SHA-256 of its DER, in hex
	// Serving is nil if the rotator has said nothing yet.
	Serving *servingStatus `json:"serving,omitempty"`
	// NotAfter and RenewAt are nil if the user may not read the Secret.
	NotAfter *time.Time `json:"notAfter,omitempty"`
	RenewAt  *time.Time `json:"renewAt,omitempty"`
}

// secretOf returns the Secret that a Service asks for; "" if it asks for none. In
// OpenShift's words it asks only of a signer with --openshift-compat: the
// condition shows that there is one.
func secretOf(svc *corev1.Service) string {
	if name, ok := api.Wants(svc); ok {
		return name
	}
	if api.Condition(svc, api.ConditionReady) == nil {
		return ""
	}
	for _, key := range []string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha} {
		if name := svc.Annotations[key]; name != "" {
			return name
		}
	}
	return ""
}

// statusOf is pure; ok is false for a Service that has nothing to do with us.
func statusOf(svc *corev1.Service) (serviceStatus, bool) {
	s := serviceStatus{Namespace: svc.Namespace, Name: svc.Name, Secret: secretOf(svc), Serving: servingOf(svc)}
	ready := api.Condition(svc, api.ConditionReady)
	if ready == nil {
		return s, s.Secret != ""
	}
	s.Ready, s.Reason, s.Message = string(ready.Status), ready.Reason, ready.Message
	s.Leaf, _ = api.LeafOf(svc)
	return s, s.Secret != "" || s.Leaf != ""
}

// services returns the Services of a namespace, of all if it is "", that have to
// do with us.
func (c *cluster) services(ctx context.Context, namespace string) ([]serviceStatus, error) {
	var found []serviceStatus
	err := c.eachService(ctx, namespace, func(svc *corev1.Service) {
		if s, ok := statusOf(svc); ok {
			found = append(found, s)
		}
	})
	return found, err
}

func (c *cluster) eachService(ctx context.Context, namespace string, visit func(*corev1.Service)) error {
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Services(namespace).List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		visit(obj.(*corev1.Service))
		return nil
	})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	return nil
}

// addTimes completes the Services with what is in their Secrets, as far as the
// user may read them. Keys are read and dropped.
func (c *cluster) addTimes(ctx context.Context, namespace string, services []serviceStatus) error {
	type key struct{ namespace, name string }
	wanted := map[key][]*serviceStatus{}
	for i := range services {
		k := key{services[i].Namespace, services[i].Secret}
		wanted[k] = append(wanted[k], &services[i])
	}
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Secrets(namespace).List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: api.LabelManagedBy}, func(obj runtime.Object) error {
		secret := obj.(*corev1.Secret)
		certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
		if err != nil {
			return nil //nolint:nilerr // the condition tells of a Secret that is damaged
		}
		for _, s := range wanted[key{secret.Namespace, secret.Name}] {
			notAfter, renewAt := certs[0].NotAfter, pki.RenewAt(certs[0]).Truncate(time.Second)
			s.NotAfter, s.RenewAt = &notAfter, &renewAt
		}
		return nil
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list Secrets: %w", err)
	}
	return nil
}
