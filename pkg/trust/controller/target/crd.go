package target

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	applyapiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
)

// customResourceDefinition is the caBundle of a conversion webhook that is
// reached by a Service.
func customResourceDefinition(openShift bool) Kind {
	return Kind{
		Name:        "CustomResourceDefinition",
		Object:      &apiextensionsv1.CustomResourceDefinition{},
		addToScheme: apiextensionsv1.AddToScheme,
		Release:     true,
		finder:      annotated{&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinitionList{}, openShift},
		strip: func(obj client.Object) {
			crd := obj.(*apiextensionsv1.CustomResourceDefinition)
			crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Conversion: crd.Spec.Conversion} // schemas are the bulk
			crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		},
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			config := conversionClient(obj.(*apiextensionsv1.CustomResourceDefinition))
			switch {
			case config == nil || config.Service == nil:
				return trust.NoField("it has no conversion webhook with a clientConfig.service")
			case !bytes.Equal(config.CABundle, bundle.PEM):
				return trust.Differs("spec.conversion.webhook.clientConfig.caBundle is not the current CA bundle")
			}
			return trust.Holds()
		},
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			config := applyapiextensionsv1.WebhookClientConfig().WithCABundle(bundle.PEM...)
			conversion := applyapiextensionsv1.CustomResourceConversion().
				WithWebhook(applyapiextensionsv1.WebhookConversion().WithClientConfig(config))
			return applyapiextensionsv1.CustomResourceDefinition(obj.GetName()).
				WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion()).
				WithSpec(applyapiextensionsv1.CustomResourceDefinitionSpec().WithConversion(conversion))
		},
	}
}

// conversionClient returns how the conversion webhook is reached, nil if there is
// none.
func conversionClient(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.WebhookClientConfig {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || conversion.Webhook == nil {
		return nil
	}
	return conversion.Webhook.ClientConfig
}
