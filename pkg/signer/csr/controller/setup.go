package controller

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Setup adds the controller to the manager. It runs on the leader.
func Setup(mgr manager.Manager, cfg requests.Config) error {
	clientset, err := requests.Clientset(mgr)
	if err != nil {
		return fmt.Errorf("client for CertificateSigningRequests: %w", err)
	}
	informer, err := facts.NewInformer(mgr, facts.Options[*certificatesv1.CertificateSigningRequest, *csr.Facts]{
		Example:    &certificatesv1.CertificateSigningRequest{},
		Field:      requests.AddressedTo(api.SignerName),
		Derive:     func(o *certificatesv1.CertificateSigningRequest) *csr.Facts { return csr.FactsOf(o, cfg.Limits) },
		Indexers:   map[string]func(*csr.Facts) []string{byConcern: (*csr.Facts).Concerns},
		LeaderOnly: true,
	})
	if err != nil {
		return fmt.Errorf("cache of CertificateSigningRequests: %w", err)
	}
	if err := mgr.Add(informer); err != nil {
		return err
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return err
	}
	c := &Controller{
		config:   cfg,
		requests: requests.NewFollowed(cfg, informer, mgr.GetEventRecorder("servingcert-signer"), metrics),
		answers:  clientset.CertificatesV1().CertificateSigningRequests(),
		reviews:  reviews{clientset.AuthorizationV1().SubjectAccessReviews()},
	}
	ctrl, err := c.requests.Controller(mgr, "certificate-signing-requests", c, affected(cfg, informer))
	if err != nil {
		return err
	}
	return mgr.Add(ctrl)
}

// byConcern indexes the pending requests by their concerns.
const byConcern = "concern"

// affected finds the requests that a change may affect, by their concerns.
func affected(cfg requests.Config, informer *facts.Informer[*csr.Facts]) requests.Affected[*csr.Facts] {
	concerned := func(concerns ...csr.Concern) (all []*csr.Facts) {
		for _, concern := range append(concerns, csr.Anything) {
			all = append(all, informer.ByIndex(byConcern, string(concern))...)
		}
		return all
	}
	return requests.Affected[*csr.Facts]{
		ByService: func(svc *corev1.Service) []*csr.Facts {
			_, limits, _ := cfg.CA()
			return concerned(csr.ConcernsOf(svc, limits)...)
		},
		ByNamespace: func(name string) []*csr.Facts {
			concerns := []csr.Concern{csr.OfNamespace(name)}
			for _, other := range cfg.Cluster.OthersIn(name) {
				concerns = append(concerns, csr.OfName(other))
			}
			return concerned(concerns...)
		},
	}
}
