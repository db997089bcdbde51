package target

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// clusterTrustBundle is the one object that pods project the bundle from in any
// namespace, created where it is missing. API servers have its kind in v1, in
// v1beta1, or not at all.
func clusterTrustBundle() Kind {
	older := clusterTrustBundleOf(certificatesv1beta1.SchemeGroupVersion)
	t := clusterTrustBundleOf(certificatesv1.SchemeGroupVersion)
	t.Older = &older
	return t
}

// clusterTrustBundleOf is the same for one version. All have the same fields.
func clusterTrustBundleOf(version schema.GroupVersion) Kind {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(version.WithKind("ClusterTrustBundle"))
	return Kind{
		Name:   "ClusterTrustBundle",
		Object: empty,
		finder: single{empty, api.TrustBundleName},
		strip:  func(client.Object) {},
		evaluate: func(obj client.Object, bundle trust.Bundle) trust.Evaluation {
			// A spec of another form is not the current bundle either.
			held, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "spec", "trustBundle")
			if held != string(bundle.PEM) {
				return trust.Differs("spec.trustBundle is not the current CA bundle")
			}
			return trust.Holds()
		},
		document: func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
			doc := empty.DeepCopy()
			doc.SetName(obj.GetName())
			doc.Object["spec"] = map[string]any{"signerName": api.SignerName, "trustBundle": string(bundle.PEM)}
			return client.ApplyConfigurationFromUnstructured(doc)
		},
	}
}
