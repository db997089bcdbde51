package controller

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// version is an API version in which PodCertificateRequests may be served.
type version struct {
	name   string
	client rest.Interface
	cache  func(mgr manager.Manager, signer string) (*facts.Informer[*podcert.Request], error)
}

// versionsOf returns the supported versions, the newest first.
func versionsOf(clientset kubernetes.Interface) []version {
	return []version{
		{facts.PodCertificatesV1, clientset.CertificatesV1().RESTClient(), func(mgr manager.Manager, signer string) (*facts.Informer[*podcert.Request], error) {
			return newCache(mgr, signer, &certificatesv1.PodCertificateRequest{}, podcert.FactsOf)
		}},
		{facts.PodCertificatesV1Beta1, clientset.CertificatesV1beta1().RESTClient(), func(mgr manager.Manager, signer string) (*facts.Informer[*podcert.Request], error) {
			return newCache(mgr, signer, &certificatesv1beta1.PodCertificateRequest{}, podcert.FactsOfBeta)
		}},
	}
}

// byPending indexes the pending requests by namespace.
const byPending = "pending"

func newCache[O client.Object](mgr manager.Manager, signer string, example O, derive func(O) *podcert.Request) (*facts.Informer[*podcert.Request], error) {
	return facts.NewInformer(mgr, facts.Options[O, *podcert.Request]{
		Example: example,
		Field:   requests.AddressedTo(signer),
		Derive:  derive,
		Indexers: map[string]func(*podcert.Request) []string{byPending: func(r *podcert.Request) []string {
			if !r.Pending {
				return nil
			}
			return []string{r.Namespace}
		}},
	})
}

// servedVersion returns the newest version that the API server serves, or nil.
func servedVersion(ctx context.Context, clientset kubernetes.Interface) (*version, error) {
	name, err := facts.PodCertificates(ctx, clientset.Discovery().RESTClient())
	if err != nil || name == "" {
		return nil, err
	}
	for _, v := range versionsOf(clientset) {
		if v.name == name {
			return &v, nil
		}
	}
	return nil, fmt.Errorf("PodCertificateRequests of %s are not supported", name)
}
