package trust

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	applyapiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// customResourceDefinition is the caBundle of a conversion webhook that is
// reached by a Service.
func customResourceDefinition(by words) Target {
	return Target{
		Kind:    "CustomResourceDefinition",
		Object:  &apiextensionsv1.CustomResourceDefinition{},
		Release: true,
		finder:  annotated{&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinitionList{}, by},
		Strip: func(obj client.Object) {
			crd := obj.(*apiextensionsv1.CustomResourceDefinition)
			crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Conversion: crd.Spec.Conversion} // schemas are the bulk
			crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		},
		Judge: func(obj client.Object, bundle []byte) Judgement {
			config := conversionClient(obj.(*apiextensionsv1.CustomResourceDefinition))
			switch {
			case config == nil || config.Service == nil:
				return Judgement{StateUnsuitable, ReasonNoField, "it has no conversion webhook that refers to a Service"}
			case !bytes.Equal(config.CABundle, bundle):
				return differs("caBundle of the conversion webhook is missing or holds something else")
			}
			return holds()
		},
		Document: func(obj client.Object, bundle []byte) runtime.ApplyConfiguration {
			config := applyapiextensionsv1.WebhookClientConfig().WithCABundle(bundle...)
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
