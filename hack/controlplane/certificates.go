package controlplane

import (
	"cmp"
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/facts"
)

// Certificates is a client for the objects of [Features].
type Certificates interface {
	certificatesclient.PodCertificateRequestsGetter
	certificatesclient.ClusterTrustBundlesGetter
}

// PodCertificateVolume returns a volume for which the kubelet requests a certificate from a signer.
// Since Kubernetes 1.37, admission plugin NodeRestriction rejects a kubelet's requests for pods
// without such a volume.
func PodCertificateVolume(signerName string) corev1.Volume {
	return corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: signerName, KeyType: "ECDSAP256", KeyPath: "tls.key", CertificateChainPath: "tls.crt",
		}}},
	}}}
}

// CertificatesOf returns a client for the version of these objects that the API server serves. It
// uses the types of v1 for v1beta1 too, which has the same fields and two more.
func CertificatesOf(ctx context.Context, cfg *rest.Config) (Certificates, error) {
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	requests, err := facts.PodCertificates(ctx, found.RESTClient())
	if err != nil {
		return nil, err
	}
	bundles, err := facts.TrustBundles(ctx, found.RESTClient())
	if err != nil {
		return nil, err
	}
	version, err := schema.ParseGroupVersion(cmp.Or(requests, bundles, facts.PodCertificatesV1))
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version,
		&certificatesv1.PodCertificateRequest{}, &certificatesv1.PodCertificateRequestList{},
		&certificatesv1.ClusterTrustBundle{}, &certificatesv1.ClusterTrustBundleList{})
	metav1.AddToGroupVersion(scheme, version)
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &version
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return certificatesclient.New(c), nil
}
