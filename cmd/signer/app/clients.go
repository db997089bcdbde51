package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	podcertcontroller "github.com/servingcert/servingcert/pkg/signer/podcert/controller"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

type clientFlags struct {
	trustDomain string
	given       func() bool // reports whether --trust-domain was set: an empty value is an error
}

func (f *clientFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.trustDomain, "trust-domain", "", "SPIFFE trust domain of the cluster, such as cluster.example.com: a second CA then signs certificates that show the ServiceAccount of a pod, as spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/NAME. "+
		"It cannot be changed later. Requires Kubernetes 1.37, or 1.36 with feature gates PodCertificateRequest, ClusterTrustBundle and ClusterTrustBundleProjection")
	f.given = func() bool { return fs.Changed("trust-domain") }
}

func (f *clientFlags) enabled() bool { return f.trustDomain != "" }

func (f *clientFlags) validate() error {
	if !f.given() {
		return nil
	}
	if err := pki.CheckTrustDomain(f.trustDomain); err != nil {
		return fmt.Errorf("--trust-domain: %w", err)
	}
	return nil
}

// ofCA returns a registerer that distinguishes the metrics of the CAs.
func ofCA(objects ca.Objects) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"ca": objects.CA}, metrics.Registry)
}

// answerClients adds the CA for clients, and the controller of requests for certificates of it. shared is
// the configuration of the requests for serving certificates.
func answerClients(ctx context.Context, mgr manager.Manager, cfg *Config, shared requests.Config, skew *signercontroller.Skew, changed signal) error {
	version, err := versionForClients(ctx, mgr)
	if err != nil {
		return err
	}
	keeping := cfg.caConfig(nil, skew)
	keeping.Constraints = pki.ForClients(cfg.Clients.trustDomain)
	keeping.Domain = keeping.Constraints.PermittedDNS[0] // no domain was ever another one
	keeping.MaxDuration, keeping.Reissue = cfg.PodDuration, 0
	keeping.Bundle = &cacontroller.Bundle{Version: version}
	keeping.ManagedExist = func(ctx context.Context) (bool, error) { return bundleExists(ctx, mgr.GetAPIReader(), version) }
	keeping.OnChange = changed.send
	keeping.Registerer = ofCA(ca.Clients())
	authority, err := cacontroller.Setup(mgr, keeping)
	if err != nil {
		return err
	}
	pods := cfg.podConfig()
	pods.Config, pods.Signer = shared, api.ClientSignerName
	pods.AuthorityChanged = changed[0]
	pods.Authority = func() (*pki.Authority, error) {
		if err := skew.Check(); err != nil {
			return nil, err
		}
		return authority.Authority()
	}
	if pods.Sign, err = cfssl.NewLocal(); err != nil {
		return err
	}
	pods.Registerer = ofCA(ca.Clients())
	return podcertcontroller.Setup(mgr, pods)
}

// versionForClients returns the API version of ClusterTrustBundles, or an error if the API server lacks what
// identities need.
func versionForClients(ctx context.Context, mgr manager.Manager) (version string, err error) {
	clientset, err := requests.Clientset(mgr)
	if err != nil {
		return "", fmt.Errorf("client for ClusterTrustBundles: %w", err)
	}
	discovery := clientset.Discovery().RESTClient()
	pods, err := facts.PodCertificates(ctx, discovery)
	if err == nil {
		version, err = facts.TrustBundles(ctx, discovery)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("--trust-domain: find out what the API server serves: %w", err)
	case pods == "" || version == "":
		return "", errors.New("--trust-domain: the API server must serve PodCertificateRequests and ClusterTrustBundles, as Kubernetes 1.37 does: leave out the flag")
	}
	return version, nil
}

// bundleExists reports whether the roots of a CA for clients were published: if so, there was one.
func bundleExists(ctx context.Context, live client.Reader, version string) (bool, error) {
	bundle := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterTrustBundle"}}
	err := live.Get(ctx, client.ObjectKey{Name: api.ClientBundleName}, bundle)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
