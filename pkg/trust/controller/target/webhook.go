package target

import (
	"bytes"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applyadmissionv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
)

// mutatingWebhookConfiguration is the caBundle of the webhooks that are reached
// by a Service. A url is outside the cluster, with a certificate that is not ours.
func mutatingWebhookConfiguration(openShift bool) Kind {
	return Kind{
		Name:        "MutatingWebhookConfiguration",
		Object:      &admissionregistrationv1.MutatingWebhookConfiguration{},
		addToScheme: admissionregistrationv1.AddToScheme,
		Release:     true,
		finder:      annotated{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfigurationList{}, openShift},
		strip: func(obj client.Object) {
			config := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
			for i, w := range config.Webhooks {
				config.Webhooks[i] = admissionregistrationv1.MutatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig}
			}
		},
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			return evaluateWebhooks(mutatingWebhooks(obj), bundle.PEM)
		},
		calls:  func(obj client.Object) []string { return serviceNamespaces(mutatingWebhooks(obj)) },
		advice: nameInRole("mutatingwebhookconfigurations"),
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			config := applyadmissionv1.MutatingWebhookConfiguration(obj.GetName()).
				WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion())
			for _, w := range mutatingWebhooks(obj) {
				if w.hasService() {
					config.WithWebhooks(applyadmissionv1.MutatingWebhook().WithName(w.name).
						WithClientConfig(applyadmissionv1.WebhookClientConfig().WithCABundle(bundle.PEM...)))
				}
			}
			return config
		},
	}
}

// validatingWebhookConfiguration is the same for the other kind of webhook.
func validatingWebhookConfiguration(openShift bool) Kind {
	return Kind{
		Name:        "ValidatingWebhookConfiguration",
		Object:      &admissionregistrationv1.ValidatingWebhookConfiguration{},
		addToScheme: admissionregistrationv1.AddToScheme,
		Release:     true,
		finder:      annotated{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}, openShift},
		strip: func(obj client.Object) {
			config := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			for i, w := range config.Webhooks {
				config.Webhooks[i] = admissionregistrationv1.ValidatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig}
			}
		},
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			return evaluateWebhooks(validatingWebhooks(obj), bundle.PEM)
		},
		calls:  func(obj client.Object) []string { return serviceNamespaces(validatingWebhooks(obj)) },
		advice: nameInRole("validatingwebhookconfigurations"),
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			config := applyadmissionv1.ValidatingWebhookConfiguration(obj.GetName()).
				WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion())
			for _, w := range validatingWebhooks(obj) {
				if w.hasService() {
					config.WithWebhooks(applyadmissionv1.ValidatingWebhook().WithName(w.name).
						WithClientConfig(applyadmissionv1.WebhookClientConfig().WithCABundle(bundle.PEM...)))
				}
			}
			return config
		},
	}
}

func validatingWebhooks(obj client.Object) []webhook {
	var out []webhook
	for _, w := range obj.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks {
		out = append(out, webhook{w.Name, w.ClientConfig})
	}
	return out
}

func mutatingWebhooks(obj client.Object) []webhook {
	var out []webhook
	for _, w := range obj.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks {
		out = append(out, webhook{w.Name, w.ClientConfig})
	}
	return out
}

// nameInRole advises to name an object of the resource in a role. Admission policies
// do not apply to webhook configurations, so install.yaml lets the rotator patch
// our own only.
func nameInRole(resource string) func(client.Object) string {
	return func(obj client.Object) string {
		return fmt.Sprintf("let the rotator patch %s %q by a ClusterRole that names it (docs/trust.md)", resource, obj.GetName())
	}
}

// webhook is what both kinds of webhook configuration have in an entry.
type webhook struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

func (w webhook) hasService() bool { return w.client.Service != nil }

// serviceNamespaces returns the namespaces of the Services that are called.
func serviceNamespaces(webhooks []webhook) []string {
	var namespaces []string
	for _, w := range webhooks {
		if w.hasService() {
			namespaces = append(namespaces, w.client.Service.Namespace)
		}
	}
	return namespaces
}

// evaluateWebhooks evaluates the entries of a webhook configuration together.
func evaluateWebhooks(webhooks []webhook, bundle []byte) trust.Evaluation {
	ours := 0
	for _, w := range webhooks {
		if !w.hasService() {
			continue
		}
		ours++
		if !bytes.Equal(w.client.CABundle, bundle) {
			return trust.Differs(fmt.Sprintf("webhook %s: clientConfig.caBundle is not the current CA bundle", w.name))
		}
	}
	if ours == 0 {
		return trust.NoField("it has no webhook with a clientConfig.service")
	}
	return trust.Holds()
}
