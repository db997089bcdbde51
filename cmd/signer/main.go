// Command signer issues serving certificates into Secrets, under a CA that it
// keeps.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	csrcontroller "github.com/servingcert/servingcert/pkg/signer/csr/controller"
	podcontroller "github.com/servingcert/servingcert/pkg/signer/podcert/controller"
)

// leaseName is the Lease of the replica that leads.
const leaseName = "servingcert-signer"

const about = `signer gives every Service that is annotated servingcert.dev/secret-name, in a namespace labelled
servingcert.dev/inject=enabled, a Secret with a serving certificate, and renews and repairs it. It
reports the result in the Service's condition servingcert.dev/Ready.

The signer makes a CA on its first start and keeps it in Secret servingcert-ca in --namespace. What
clients must trust is in ConfigMap servingcert-ca-status there; the rotator distributes it. If the
Secret is lost, nothing is signed until it is restored, because no client would trust a new CA.

Two replicas are enough: one works, the other waits.`

// Config is all that the flags say.
type Config struct {
	Common      *process.Common
	Instance    string
	OpenShift   bool
	Limits      api.Limits
	Suffixes    []string // --permit-dns-suffix as given
	CADuration  time.Duration
	CASoak      time.Duration
	CAReissue   time.Duration
	Remote      remoteFlags
	Workers     int
	PodDuration time.Duration
	CSR         bool
	clock       func() time.Time
	constraints pki.Constraints
}

func main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

func command() process.Command {
	cfg := &Config{
		Common:     process.NewCommon(true),
		Instance:   api.DefaultInstance,
		Limits:     api.DefaultLimits(),
		CADuration: ca.DefaultCADuration,
		CASoak:     ca.DefaultSoak,
		CAReissue:  ca.DefaultReissue,
		Workers:    signercontroller.DefaultWorkers,

		PodDuration: podcontroller.DefaultMaxDuration,
		CSR:         true,

		clock: time.Now,
	}
	return process.Command{
		Name:     "signer",
		About:    about,
		Common:   cfg.Common,
		Flags:    cfg.register,
		Validate: cfg.validate,
		Run:      func(ctx context.Context) error { return run(ctx, cfg) },
	}
}

func (c *Config) register(fs *pflag.FlagSet) {
	fs.StringVar(&c.Instance, "instance", c.Instance, "value of label "+api.LabelManagedBy+" on the Secrets of this signer; Secrets of other signers are not touched")
	fs.BoolVar(&c.OpenShift, "openshift-compat", c.OpenShift, "treat OpenShift's annotation "+api.OpenShiftSecretName+" on a Service as servingcert's, in every namespace, and write the annotations that service-ca writes; the process does not start where service-ca runs")
	fs.DurationVar(&c.Limits.DefaultDuration, "default-duration", c.Limits.DefaultDuration, "lifetime of a certificate whose Service does not ask for another")
	fs.DurationVar(&c.Limits.MinDuration, "min-duration", c.Limits.MinDuration, "shortest lifetime that a Service may ask for")
	fs.DurationVar(&c.Limits.MaxDuration, "max-duration", c.Limits.MaxDuration, "longest lifetime that a Service may ask for")
	fs.DurationVar(&c.PodDuration, "pod-max-duration", c.PodDuration, "longest lifetime of a certificate whose key a pod made ("+api.AnnotationKeySource+": "+string(api.KeySourcePod)+"), and of one for a CertificateSigningRequest")
	fs.BoolVar(&c.CSR, "csr", c.CSR, "approve and sign CertificateSigningRequests for signer "+api.SignerName+"; without it they are not watched")
	fs.DurationVar(&c.CADuration, "ca-duration", c.CADuration, "lifetime of a generation of the CA; it is replaced in its last third, which must be at least --max-duration plus --ca-soak")
	fs.DurationVar(&c.CASoak, "ca-soak", c.CASoak, "how long all targets must hold the root of a new generation before it signs; kubelets update volumes of pods within 92s")
	fs.DurationVar(&c.CAReissue, "ca-reissue-window", c.CAReissue, "time over which the certificates of older generations are replaced, once a new generation signs")
	fs.StringArrayVar(&c.Suffixes, "permit-dns-suffix", nil, "NAMESPACE-GLOB=SUFFIX: Services of these namespaces may ask for SUFFIX and names below it, outside the cluster domain; may be given several times")
	fs.BoolVar(&c.Limits.PermitClusterIPs, "permit-cluster-ips", c.Limits.PermitClusterIPs, "let Services ask for their ClusterIPs as names; without it the CA excludes every IP address")
	c.Remote.register(fs)
	fs.IntVar(&c.Workers, "workers", c.Workers, "number of Secrets that are processed concurrently")
}

func (c *Config) validate() error {
	c.Limits.ClusterDomain = c.Common.ClusterDomain
	c.Limits.PermitDNSSuffixes = nil
	for _, s := range c.Suffixes {
		rule, err := api.ParseSuffixRule(s, c.Limits.ClusterDomain)
		if err != nil {
			return fmt.Errorf("--permit-dns-suffix: %w", err)
		}
		c.Limits.PermitDNSSuffixes = append(c.Limits.PermitDNSSuffixes, rule)
	}
	c.constraints = c.Limits.Constraints()
	if err := c.signerConfig().Validate(); err != nil {
		return err
	}
	if err := c.caConfig(nil, nil).Validate(); err != nil {
		return err
	}
	if err := c.podConfig().Validate(); err != nil {
		return err
	}
	return c.Remote.validate(c.clock)
}

// signerConfig is complete but for what run wires: Sign and the CA.
func (c *Config) signerConfig() signercontroller.Config {
	return signercontroller.Config{
		Instance:   c.Instance,
		Namespace:  c.Common.Namespace,
		OpenShift:  c.OpenShift,
		Limits:     c.Limits,
		Workers:    c.Workers,
		Clock:      c.clock,
		Registerer: metrics.Registry,
	}
}

// podConfig is complete but for what run wires: Sign and the CA.
func (c *Config) podConfig() podcontroller.Config {
	return podcontroller.Config{
		Limits:        c.Limits,
		MaxDuration:   c.PodDuration,
		Workers:       c.Workers,
		ProbeInterval: podcontroller.DefaultProbeInterval,
		Clock:         c.clock,
		Registerer:    metrics.Registry,
	}
}

// csrConfig is complete but for what run wires: Sign and the CA. What it shares with
// podConfig is validated there.
func (c *Config) csrConfig() csrcontroller.Config {
	return csrcontroller.Config{
		Limits:      c.Limits,
		MaxDuration: c.PodDuration,
		Workers:     c.Workers,
		Clock:       c.clock,
		Registerer:  metrics.Registry,
	}
}

// caConfig is complete but for what run wires: Remote, Leaves and OnChange. It takes
// the client that tells a first start from a loss, and the clock's check: a CA made
// by a clock that is wrong would begin in the future, or be half over. Neither is
// needed to validate it.
func (c *Config) caConfig(live client.Reader, skew *signercontroller.Skew) cacontroller.Config {
	return cacontroller.Config{
		Namespace: c.Common.Namespace,
		Parameters: ca.Parameters{
			CADuration:  c.CADuration,
			MaxDuration: c.Limits.MaxDuration,
			Soak:        c.CASoak,
			Reissue:     c.CAReissue,
			Constraints: c.constraints,
			Domain:      c.Common.ClusterDomain,
		},
		Clock:      c.clock,
		CheckClock: skew.Check,
		ManagedExist: func(ctx context.Context) (bool, error) {
			return managedExist(ctx, live, c.Instance)
		},
		Registerer: metrics.Registry,
	}
}

// managedPage is how many Secrets are looked at together.
const managedPage = 100

// managedExist reports whether a Secret exists that this signer has issued, as far as
// that can be told: then there was a CA once.
func managedExist(ctx context.Context, live client.Reader, instance string) (bool, error) {
	for next := ""; ; {
		list := &corev1.SecretList{}
		err := live.List(ctx, list, client.MatchingLabels{api.LabelManagedBy: instance}, client.Limit(managedPage), client.Continue(next))
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if signer.Plausible(&list.Items[i], instance) {
				return true, nil
			}
		}
		if next = list.Continue; next == "" {
			return false, nil
		}
	}
}

func run(ctx context.Context, cfg *Config) error {
	bridgeLogs(ctrl.Log.WithName("cfssl"))
	skew := signercontroller.NewSkew(cfg.clock)
	mgr, err := newManager(cfg, skew)
	if err != nil {
		return err
	}
	if cfg.OpenShift {
		if err := process.RefuseBesideServiceCA(ctx, mgr.GetAPIReader()); err != nil {
			return err
		}
	}
	sign, remote, err := cfg.Remote.signer()
	if err != nil {
		return err
	}
	var issuer *signercontroller.Controller // made below: it needs the CA
	changed := newSignal(3)
	keeping := cfg.caConfig(mgr.GetAPIReader(), skew)
	keeping.Remote = remote
	keeping.Leaves = func() map[string]int { return issuer.Leaves() }
	keeping.OnChange = changed.send
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
	issuing.Sign = sign
	if issuer, err = signercontroller.Setup(ctx, mgr, issuing); err != nil {
		return err
	}
	answering := cfg.podConfig()
	answering.AuthorityChanged, answering.Authority, answering.Sign = changed[1], issuing.Authority, sign
	if err := podcontroller.Setup(ctx, mgr, answering); err != nil {
		return err
	}
	if cfg.CSR {
		requests := cfg.csrConfig()
		requests.AuthorityChanged, requests.Authority, requests.Sign = changed[2], issuing.Authority, sign
		if err := csrcontroller.Setup(ctx, mgr, requests); err != nil {
			return err
		}
	}
	ready := func(r *http.Request) error { return errors.Join(skew.Check(), authority.Ready(r)) }
	if err := process.AddChecks(mgr, "ca", ready); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// signal tells several receivers that something changed, each by a channel of its own.
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
		default: // one that nobody has received yet says as much
		}
	}
}

func newManager(cfg *Config, skew *signercontroller.Skew) (manager.Manager, error) {
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
	mgr, err := ctrl.NewManager(rest, options)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return mgr, nil
}
