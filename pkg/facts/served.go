package facts

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The versions in which an API server may serve PodCertificateRequests and
// ClusterTrustBundles, the newest first.
const (
	PodCertificatesV1      = "certificates.k8s.io/v1"
	PodCertificatesV1Beta1 = "certificates.k8s.io/v1beta1"

	// PodCertificateRequests is the name of the resource.
	PodCertificateRequests = "podcertificaterequests"
	clusterTrustBundles    = "clustertrustbundles"
)

// PodCertificates returns the newest version in which the API server serves PodCertificateRequests, or "" if it
// does not. The base path of the client does not matter.
func PodCertificates(ctx context.Context, c rest.Interface) (version string, err error) {
	return served(ctx, c, PodCertificateRequests)
}

// TrustBundles is PodCertificates for ClusterTrustBundles.
func TrustBundles(ctx context.Context, c rest.Interface) (version string, err error) {
	return served(ctx, c, clusterTrustBundles)
}

func served(ctx context.Context, c rest.Interface, resource string) (version string, err error) {
	for _, v := range []string{PodCertificatesV1, PodCertificatesV1Beta1} {
		list := &metav1.APIResourceList{}
		switch err := c.Get().AbsPath("/apis/" + v).Do(ctx).Into(list); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", fmt.Errorf("discover the resources of %s: %w", v, err)
		}
		for _, r := range list.APIResources {
			if r.Name == resource {
				return v, nil
			}
		}
	}
	return "", nil
}
