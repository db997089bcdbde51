package target

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	applyapiregistrationv1 "k8s.io/kube-aggregator/pkg/client/applyconfiguration/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
)

// apiService is the caBundle of an API that is served by a Service. One that
// skips verification may not have any.
func apiService(openShift bool) Kind {
	return Kind{
		Name:        "APIService",
		Object:      &apiregistrationv1.APIService{},
		addToScheme: apiregistrationv1.AddToScheme,
		finder:      annotated{&apiregistrationv1.APIService{}, &apiregistrationv1.APIServiceList{}, openShift},
		strip: func(obj client.Object) {
			service := obj.(*apiregistrationv1.APIService)
			service.Status = apiregistrationv1.APIServiceStatus{}
		},
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			spec := obj.(*apiregistrationv1.APIService).Spec
			switch {
			case spec.Service == nil:
				return trust.NoField("spec.service is not set: the API server serves this API itself")
			case spec.InsecureSkipTLSVerify:
				return trust.NoField("spec.insecureSkipTLSVerify is set: spec.caBundle is not allowed with it")
			case !bytes.Equal(spec.CABundle, bundle.PEM):
				return trust.Differs("spec.caBundle is not the current CA bundle")
			}
			return trust.Holds()
		},
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			return applyapiregistrationv1.APIService(obj.GetName()).
				WithUID(obj.GetUID()).WithResourceVersion(obj.GetResourceVersion()).
				WithSpec(applyapiregistrationv1.APIServiceSpec().WithCABundle(bundle.PEM...))
		},
	}
}
