package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// webhookConfiguration is its name in deploy/install.yaml.
const webhookConfiguration = "servingcert"

// Uninstall returns what is to be known before servingcert is uninstalled. A user who may
// not read the CA's Secret gets CAErr.
func (c *Cluster) Uninstall(ctx context.Context, system string) (s judge.UninstallSituation, err error) {
	s.System = system
	if s.Services, err = c.Services(ctx, ""); err != nil {
		return s, err
	}
	_, err = c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhookConfiguration, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return s, fmt.Errorf("read the webhook configuration: %w", err)
	}
	s.Webhook = err == nil
	if err := c.eachBundle(ctx, func(cm *corev1.ConfigMap) { s.Bundles = append(s.Bundles, judge.Escape(cm.Namespace)) }); err != nil {
		return s, err
	}
	ca, err := c.Client.CoreV1().Secrets(system).Get(ctx, api.CASecretName, metav1.GetOptions{})
	switch {
	case err == nil:
		s.CA = ca
	case !apierrors.IsNotFound(err):
		s.CAErr = err
	}
	if cm, err := c.CAConfigMap(ctx, system); err == nil { // without it, the signer has reported nothing
		s.Lost = judge.ParseCA(cm.Data).NoCA()
	}
	return s, nil
}

// eachBundle visits the ConfigMaps with the bundle.
func (c *Cluster) eachBundle(ctx context.Context, visit func(*corev1.ConfigMap)) error {
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.Client.CoreV1().ConfigMaps("").List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + api.BundleName}, func(obj runtime.Object) error {
		visit(obj.(*corev1.ConfigMap))
		return nil
	})
	if err != nil {
		return fmt.Errorf("list ConfigMaps: %w", err)
	}
	return nil
}
