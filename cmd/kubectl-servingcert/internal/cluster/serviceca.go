package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// Migration reads the facts for a migration from service-ca, except the time.
func (c *Cluster) Migration(ctx context.Context, system, instance string) (status.MigrationFacts, error) {
	f := status.MigrationFacts{Namespace: system}
	var err error
	if f.Signing, err = c.secretData(ctx, api.OpenShiftNamespace, api.OpenShiftSigningKey); err != nil {
		return f, err
	}
	if f.Import, err = c.secretData(ctx, system, api.CAImportName); err != nil {
		return f, err
	}
	if f.Running, err = c.runningServiceCA(ctx); err != nil {
		return f, err
	}
	cm, err := c.CAConfigMap(ctx, system)
	switch missing := (NotInstalledError{}); {
	case err == nil:
		ca := status.ParseCA(cm.Data)
		f.Status = &ca
	case !errors.As(err, &missing):
		return f, err
	}
	if f.WithoutCompat, err = c.withoutCompat(ctx, system); err != nil {
		return f, err
	}
	f.Secrets, err = c.serviceCASecrets(ctx, f.Signing, instance)
	return f, err
}

// secretData returns the data of the Secret, nil if it does not exist.
func (c *Cluster) secretData(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := c.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	case secret.Data == nil:
		return map[string][]byte{}, nil
	}
	return secret.Data, nil
}

// runningServiceCA returns the Deployments of service-ca that have replicas, its own first.
func (c *Cluster) runningServiceCA(ctx context.Context) ([]string, error) {
	var running []string
	for _, key := range api.ServiceCADeployments() {
		d, err := c.Client.AppsV1().Deployments(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read Deployment %s: %w", key, err)
		case d.Spec.Replicas == nil || *d.Spec.Replicas > 0:
			running = append(running, key.String())
		}
	}
	return running, nil
}

// withoutCompat returns the names of servingcert's Deployments without --openshift-compat.
func (c *Cluster) withoutCompat(ctx context.Context, system string) ([]string, error) {
	list, err := c.Client.AppsV1().Deployments(system).List(ctx, metav1.ListOptions{LabelSelector: labelPartOf + "=" + partOf})
	if err != nil {
		return nil, fmt.Errorf("list the Deployments of servingcert: %w", err)
	}
	var without []string
	for i := range list.Items {
		d := &list.Items[i]
		if takesCompat := slices.Contains([]string{"signer", "trust", "rotator", "webhook"}, d.Labels[labelName]); takesCompat && !hasCompat(d) {
			without = append(without, "Deployment "+api.Escape(d.Name))
		}
	}
	return without, nil
}

func hasCompat(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.Args, func(arg string) bool {
			name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return name == "openshift-compat" && (!given || value == "true")
		})
	})
}

// serviceCASecrets returns the Secrets that Services request with OpenShift's annotations.
func (c *Cluster) serviceCASecrets(ctx context.Context, signing map[string][]byte, instance string) ([]status.ServiceCASecret, error) {
	key, _ := status.ParseSigningKey(signing) // DecideMigration reports the error
	var services []*corev1.Service
	err := c.eachService(ctx, "", "", func(svc *corev1.Service) {
		if status.ServiceCASecretName(svc) != "" {
			services = append(services, svc.DeepCopy())
		}
	})
	if err != nil {
		return nil, err
	}
	var found []status.ServiceCASecret
	for _, svc := range services {
		name := status.ServiceCASecretName(svc)
		secret, err := c.Client.CoreV1().Secrets(svc.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			secret, err = nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %s/%s of Service %s: %w", svc.Namespace, name, svc.Name, err)
		}
		found = append(found, status.SecretOfServiceCA(svc, name, secret, key, instance))
	}
	return found, nil
}
