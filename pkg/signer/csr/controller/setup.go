package controller

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Setup adds the controller to the manager. It runs on the leader.
func Setup(mgr manager.Manager, cfg requests.Config) error {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("client for CertificateSigningRequests: %w", err)
	}
	informer, err := facts.NewInformer(facts.Options[*certificatesv1.CertificateSigningRequest, *csr.Request]{
		Objects:    requests.Ours(clientset.CertificatesV1().RESTClient(), "certificatesigningrequests"),
		Example:    &certificatesv1.CertificateSigningRequest{},
		Derive:     csr.FactsOf,
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
	// A request does not say of which namespaces its names are: all that wait are looked at.
	ctrl, err := c.requests.Controller(mgr, "certificate-signing-requests", c, func(string) []*csr.Request { return informer.List() })
	if err != nil {
		return err
	}
	return mgr.Add(ctrl)
}
