package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	csrcontroller "github.com/servingcert/servingcert/pkg/signer/csr/controller"
	kubeletcontroller "github.com/servingcert/servingcert/pkg/signer/kubelet/controller"
	podcertcontroller "github.com/servingcert/servingcert/pkg/signer/podcert/controller"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

func run(ctx context.Context, cfg *Config) error {
	bridgeLogs(ctrl.Log.WithName("cfssl"))
	skew := signercontroller.NewSkew(cfg.clock)
	mgr, err := newManager(ctx, cfg, skew)
	if err != nil {
		return err
	}
	signs, err := cfg.signer(mgr)
	if err != nil {
		return err
	}
	var issuer *signercontroller.Controller // created below: it needs the CA
	changed := newSignal(3)
	keeping := cfg.caConfig(mgr.GetAPIReader(), skew)
	keeping.Remote = signs.candidate
	keeping.Leaves = func() map[string]int { return issuer.Leaves() }
	keeping.OnChange = changed.send
	keeping.Registerer = ofCA(ca.Serving())
	authority, err := cacontroller.Setup(mgr, keeping)
	if err != nil {
		return err
	}

	issuing := cfg.signerConfig()
	issuing.AuthorityChanged = changed[0]
	issuing.Authority = func() (*pki.Authority, error) {
		if err := skew.Check(); err != nil {
			return nil, err
		}
		return authority.Authority()
	}
	issuing.Interim = authority.Interim
	issuing.Sign, issuing.Issue, issuing.Available = signs.sign, signs.issue, signs.available
	if issuer, err = signercontroller.Setup(mgr, issuing); err != nil {
		return err
	}
	shared := cfg.requestConfig()
	shared.Cluster, shared.Pace = requests.NewCluster(mgr.GetCache(), mgr.GetAPIReader(), issuer.Services(), shared.Limits), issuer.Pace()
	shared.Sign, shared.Authority = issuing.Sign, issuing.Authority
	if err := answerRequests(mgr, cfg, shared, changed[1], changed[2]); err != nil {
		return err
	}
	if cfg.Clients.enabled() {
		if err := answerClients(ctx, mgr, cfg, shared, skew, newSignal(1)); err != nil {
			return err
		}
	}
	if cfg.Kubelets.approve {
		if err := kubeletcontroller.Setup(mgr, cfg.kubeletConfig()); err != nil {
			return err
		}
	}
	if err := cfg.Common.AddMetrics(mgr); err != nil {
		return err
	}
	ready := func(r *http.Request) error { return errors.Join(skew.Check(), authority.Ready(r)) }
	if err := cfg.Common.AddChecks(mgr, "ca", ready); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// answerRequests adds the controllers for PodCertificateRequests and CertificateSigningRequests, with
// the CA and limits of the signer's controller.
func answerRequests(mgr manager.Manager, cfg *Config, shared requests.Config, podsChanged, csrsChanged <-chan struct{}) error {
	pods := cfg.podConfig()
	pods.Config = shared
	pods.AuthorityChanged = podsChanged
	pods.Registerer = ofCA(ca.Serving())
	if err := podcertcontroller.Setup(mgr, pods); err != nil || !cfg.CSR {
		return err
	}
	shared.AuthorityChanged = csrsChanged
	return csrcontroller.Setup(mgr, shared)
}

// signal notifies several receivers of a change, each through its own channel.
type signal []chan struct{}

func newSignal(receivers int) signal {
	s := make(signal, receivers)
	for i := range s {
		s[i] = make(chan struct{}, 1)
	}
	return s
}

func (s signal) send() {
	for _, c := range s {
		select {
		case c <- struct{}{}:
		default: // one is already pending
		}
	}
}

func newManager(ctx context.Context, cfg *Config, skew *signercontroller.Skew) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	rest, err := cfg.Common.RESTConfig(leaseName)
	if err != nil {
		return nil, err
	}
	rest.Wrap(skew.Wrap)
	options := cfg.Common.ManagerOptions(scheme, leaseName)
	if options.Cache, err = cfg.signerConfig().CacheOptions(); err != nil {
		return nil, err
	}
	return process.NewManager(ctx, rest, options, cfg.OpenShift)
}

// managedExist reports whether a Secret issued by this signer exists, as far as that can be
// determined: if so, there was a CA.
func managedExist(ctx context.Context, live client.Reader, instance string) (bool, error) {
	err := facts.EachOf(ctx, live, &corev1.SecretList{}, func(object runtime.Object) error {
		if signer.Plausible(object.(*corev1.Secret), instance) {
			return errFound
		}
		return nil
	}, client.MatchingLabels{api.LabelManagedBy: instance})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// errFound ends the search of managedExist.
var errFound = errors.New("found")
