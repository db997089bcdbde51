// Package app implements the program signer: its flags, their validation, and Run. The command only
// calls it, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	podcertcontroller "github.com/servingcert/servingcert/pkg/signer/podcert/controller"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// leaseName is the Lease of the leading replica.
const leaseName = "servingcert-signer"

const about = `signer issues a serving certificate into a Secret for every Service that is annotated
servingcert.dev/secret-name in a namespace labelled servingcert.dev/inject=enabled, and renews and
repairs it. It reports the result in the Service's condition servingcert.dev/Ready.

The signer creates a CA on its first start and keeps it in Secret servingcert-ca in --namespace. The
bundle that clients must trust is in ConfigMap servingcert-ca-status there; the rotator distributes
it. If the Secret is lost, nothing is signed until it is restored: no client would trust a new CA.

Two replicas are enough: one works, the other waits.`

// Config holds the values of the flags.
type Config struct {
	Common      *process.Common
	Instance    string
	OpenShift   bool
	Limits      api.Limits
	ClusterID   string
	Suffixes    []string // --permit-dns-suffix as given
	CADuration  time.Duration
	CASoak      time.Duration
	CAReissue   time.Duration
	CAGrace     time.Duration // --ca-refusal-grace
	Remote      remoteFlags
	Issuer      issuerFlags
	Workers     int
	PodDuration time.Duration
	Rates       ratelimit.Rates
	CSR         bool
	Kubelets    kubeletFlags
	Clients     clientFlags
	clock       func() time.Time
	constraints pki.Constraints
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

func command() process.Command {
	cfg := &Config{
		Common:     process.NewCommon(true),
		Instance:   api.DefaultInstance,
		Limits:     api.DefaultLimits(),
		CADuration: ca.DefaultCADuration,
		CASoak:     ca.DefaultSoak,
		CAReissue:  ca.DefaultReissue,
		CAGrace:    ca.DefaultRefusalGrace,
		Workers:    signercontroller.DefaultWorkers,
		Rates:      ratelimit.DefaultRates(),

		PodDuration: podcertcontroller.DefaultMaxDuration,
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
	fs.StringVar(&c.Instance, "instance", c.Instance, "value of label "+api.LabelManagedBy+" on the Secrets of this signer; Secrets of other signers are left alone")
	fs.BoolVar(&c.OpenShift, "openshift-compat", c.OpenShift, "treat OpenShift's annotation "+api.OpenShiftSecretName+" on a Service like servingcert's, in every namespace, and write the annotations that service-ca writes; the process does not start where service-ca runs")
	fs.DurationVar(&c.Limits.DefaultDuration, "default-duration", c.Limits.DefaultDuration, "lifetime of a certificate whose Service sets none")
	fs.DurationVar(&c.Limits.MinDuration, "min-duration", c.Limits.MinDuration, "shortest lifetime that a Service may set")
	fs.DurationVar(&c.Limits.MaxDuration, "max-duration", c.Limits.MaxDuration, "longest lifetime that a Service may set")
	fs.DurationVar(&c.PodDuration, "pod-max-duration", c.PodDuration, "longest lifetime of a certificate whose key was generated for a pod ("+api.AnnotationKeySource+": "+string(api.KeySourcePod)+"), and of a certificate for a CertificateSigningRequest")
	fs.BoolVar(&c.CSR, "csr", c.CSR, "approve and sign CertificateSigningRequests for signer "+api.SignerName+"; if false, they are not watched")
	c.Kubelets.register(fs)
	c.Clients.register(fs)
	fs.DurationVar(&c.CADuration, "ca-duration", c.CADuration, "lifetime of a generation of the CA; it is replaced in its last third, which must be no shorter than --max-duration plus --ca-soak")
	fs.StringVar(&c.ClusterID, "cluster-id", c.ClusterID, "name that distinguishes this cluster's CAs from those of others: the organizational unit (OU) of new CAs; changing it does not replace a CA")
	fs.DurationVar(&c.CASoak, "ca-soak", c.CASoak, "how long all targets must have held a new generation's root before it signs; kubelets update the volumes of pods within "+
		api.KubeletUpdates.String()+", and a ClusterTrustBundle that a pod projects by name within "+api.KubeletUpdatesByName.String())
	fs.DurationVar(&c.CAGrace, "ca-refusal-grace", c.CAGrace, "how long a new generation waits for targets in namespaces that reject its root before it signs without them; for cluster-scoped targets it waits until --ca-soak before the signing generation expires")
	fs.DurationVar(&c.CAReissue, "ca-reissue-window", c.CAReissue, "time over which certificates are replaced: those of older generations once a new generation signs, and those that lack names once the last root that did not permit these names is retired")
	fs.StringArrayVar(&c.Suffixes, "permit-dns-suffix", nil, "NAMESPACE-GLOB=SUFFIX: Services of these namespaces may ask for SUFFIX and names below it, outside the cluster domain; may be given several times")
	fs.BoolVar(&c.Limits.PermitClusterIPs, "permit-cluster-ips", c.Limits.PermitClusterIPs, "let Services ask for their ClusterIPs as names; if false, the CA excludes every IP address")
	fs.BoolVar(&c.Limits.PermitRSA4096, "permit-rsa4096", c.Limits.PermitRSA4096, "let Services request RSA4096 keys, which take seconds of CPU time each to generate; if false, only Secrets that already have one keep it")
	fs.DurationVar(&c.Limits.ClusterIPDuration, "cluster-ip-duration", c.Limits.ClusterIPDuration, "longest lifetime of a certificate with ClusterIPs, whatever its Service sets: the address of a deleted Service may be assigned to another. A remote CA sets its own lifetime")
	c.Remote.register(fs)
	c.Issuer.register(fs)
	fs.IntVar(&c.Workers, "workers", c.Workers, "number of Secrets that are processed concurrently")
	fs.IntVar(&c.Rates.Secret.Burst, "secret-issue-burst", c.Rates.Secret.Burst, "number of certificates that one Secret, or the requests of one pod, may get at once, for any reason; 0: no limit")
	fs.DurationVar(&c.Rates.Secret.Interval, "secret-issue-interval", c.Rates.Secret.Interval, "time between certificates of one Secret, or one pod, after the burst")
	fs.IntVar(&c.Rates.Namespace.Burst, "namespace-reissue-burst", c.Rates.Namespace.Burst, "number of certificates of one namespace that may be replaced at once because its users changed Services or Secrets, or issued for requests beyond the first of each pod; 0: no limit")
	fs.DurationVar(&c.Rates.Namespace.Interval, "namespace-reissue-interval", c.Rates.Namespace.Interval, "time between such certificates of one namespace after the burst")
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
	if c.CAGrace == 0 { // the CA's Parameters take 0 as the default
		return errors.New(`--ca-refusal-grace: "0s": must be positive`)
	}
	if err := c.signerConfig().Validate(); err != nil {
		return err
	}
	if err := c.caConfig(nil, nil).Validate(); err != nil {
		return err
	}
	if err := c.podConfig().Validate(); err != nil {
		return err
	}
	if err := c.Clients.validate(); err != nil {
		return err
	}
	if err := c.Kubelets.validate(c.Limits.ClusterDomain); err != nil {
		return err
	}
	if err := c.Issuer.validate(&c.Remote, c.Instance); err != nil {
		return err
	}
	return c.Remote.validate(c.clock)
}

// signerConfig returns the configuration without what run adds: Sign and the CA.
func (c *Config) signerConfig() signercontroller.Config {
	return signercontroller.Config{
		Instance:   c.Instance,
		Namespace:  c.Common.Namespace,
		OpenShift:  c.OpenShift,
		Limits:     c.Limits,
		Workers:    c.Workers,
		Rates:      c.Rates,
		Clock:      c.clock,
		Registerer: metrics.Registry,

		ReissueWindow: c.CAReissue,
	}
}

// podConfig returns the configuration without what run adds to requestConfig.
func (c *Config) podConfig() podcertcontroller.Config {
	return podcertcontroller.Config{Config: c.requestConfig(), Signer: api.SignerName, ProbeInterval: podcertcontroller.DefaultProbeInterval}
}

// requestConfig returns the configuration for both kinds of requests, without what run adds: the
// readers, Sign, Pace and the CA. podConfig's Validate checks it.
func (c *Config) requestConfig() requests.Config {
	return requests.Config{
		Limits:      c.Limits,
		MaxDuration: c.PodDuration,
		Workers:     c.Workers,
		Clock:       c.clock,
		Registerer:  metrics.Registry,
	}
}

// caConfig returns the configuration without what run adds: Remote, Leaves and OnChange. live tells
// a first start from a lost CA, and skew checks the clock: a CA created with a wrong clock would not
// be valid yet, or be half expired. Validation needs neither.
func (c *Config) caConfig(live client.Reader, skew *signercontroller.Skew) cacontroller.Config {
	return cacontroller.Config{
		Namespace: c.Common.Namespace,
		Parameters: ca.Parameters{
			CADuration:   c.CADuration,
			MaxDuration:  c.Limits.MaxDuration,
			Soak:         c.CASoak,
			RefusalGrace: c.CAGrace,
			Reissue:      c.CAReissue,
			Constraints:  c.constraints,
			Domain:       c.Common.ClusterDomain,
			ClusterID:    c.ClusterID,
		},
		Clock:      c.clock,
		CheckClock: skew.Check,
		ManagedExist: func(ctx context.Context) (bool, error) {
			return managedExist(ctx, live, c.Instance)
		},
		Registerer: metrics.Registry,
	}
}
