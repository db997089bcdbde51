// Package app implements the program webhook: its flags, their validation, and Run. The command only
// calls it, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

// Config is the configuration of the webhook.
type Config struct {
	Common *process.Common

	// CertDir contains tls.crt and tls.key, as the kubelet projects them. They may be created and
	// changed after the process has started.
	CertDir string
	// BindAddress is the IP address to listen on; empty: all.
	BindAddress string
	Port        int
	// ClientCAFile contains the CAs of client certificates. It may be created and changed after
	// the process has started. Empty: clients need no certificate.
	ClientCAFile string
	// ClientNames are the accepted common names or DNS names of client certificates; empty: any.
	ClientNames []string
	// OpenShift also accepts the annotations of OpenShift's service-ca on Services.
	OpenShift bool
	// DefaultMode is the mode of pods for which none is set.
	DefaultMode string
	// UnknownPrograms is what programs that are not known get.
	UnknownPrograms string
	// TrustSource is the object from which pods get the CA bundle.
	TrustSource string
	// PublicRoots is true if the rotator writes the public roots beside the CA bundle.
	PublicRoots bool
	// TrustDomain is that of the identities of pods, which the signer signs; empty: there are none.
	TrustDomain string
	// ProxyImage is the image of the proxy; empty: pods get no proxy.
	ProxyImage string
	// ProxyPullSecrets are the names of Secrets in users' namespaces for pulling it.
	ProxyPullSecrets []string
	// ProxyResources are the proxy's resources in pods whose containers have requests or limits, in
	// the format of api.AnnotationProxyResources.
	ProxyResources string
	// ShutdownDelay is how long the webhook still answers after SIGTERM.
	ShutdownDelay time.Duration
}

// maxShutdownDelay is longer than any cluster takes to remove an endpoint, and short enough for a
// Deployment to make progress.
const maxShutdownDelay = 10 * time.Minute

func command() process.Command {
	cfg := Config{Common: process.NewCommon(false)}
	return process.Command{
		Name:   "webhook",
		About:  "An admission webhook that injects serving certificates into the pods of opted-in\nnamespaces. It has no side effects and writes no objects.",
		Common: cfg.Common,
		Flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&cfg.CertDir, "cert-dir", "/etc/servingcert", "directory that contains the webhook's own tls.crt and tls.key; the webhook waits until they exist, and reloads them when they change")
			fs.IntVar(&cfg.Port, "port", 9443, "port to serve HTTPS on")
			fs.BoolVar(&cfg.OpenShift, "openshift-compat", false,
				"also accept OpenShift's annotation "+api.OpenShiftSecretName+" on Services; the namespace label is still required; the process does not start in a cluster where service-ca runs")
			fs.StringVar(&cfg.DefaultMode, "default-mode", string(api.ModeArgs), "mode (args, env or mount) of pods if neither pod, Service nor namespace sets "+api.AnnotationMode)
			fs.StringVar(&cfg.UnknownPrograms, "unknown-programs", string(api.UnknownProgramsFiles), "what a program that is not known gets in mode args if no annotation asks for flags: files (files and environment) or flags (also "+api.DefaultCertFlag+" and "+api.DefaultKeyFlag+", which most programs reject)")
			fs.StringVar(&cfg.TrustSource, "trust-source", string(api.TrustFromConfigMap),
				"object from which pods get the CA bundle: configmap ("+api.BundleName+" of their namespace) or clustertrustbundle ("+api.TrustBundleName+"), which all API servers and kubelets must support: Kubernetes 1.37, or feature gates ClusterTrustBundle and ClusterTrustBundleProjection")
			fs.BoolVar(&cfg.PublicRoots, "public-roots", false,
				"set this if the rotator has --public-roots: ConfigMap "+api.BundleName+" in Namespaces annotated "+api.AnnotationTrust+": "+string(api.TrustEnv)+" then contains them too, and pods get the variables that replace a program's trusted roots")
			fs.StringVar(&cfg.TrustDomain, "trust-domain", "",
				"the signer's --trust-domain: proxies that connect to Services then show the identity of their pod, proxies of Services with "+api.AnnotationClients+" admit only the listed clients, and programs get an identity that ask by "+api.AnnotationIdentity)
			fs.StringVar(&cfg.ProxyImage, "proxy-image", "", "image of the proxy that terminates TLS in pods whose Services have a targetPort sc-tls-PORT or sc-any-PORT, preferably with a digest: NAME@sha256:… (default: such pods get a warning and no proxy)")
			fs.StringSliceVar(&cfg.ProxyPullSecrets, "proxy-pull-secrets", nil, "names of Secrets that are added to imagePullSecrets of pods with the proxy; the kubelet ignores one that does not exist in the pod's namespace (default: none)")
			fs.StringVar(&cfg.ProxyResources, "proxy-resources", api.DefaultProxyResources, "requests and limits of the proxy in pods whose containers have some, unless set in "+api.AnnotationProxyResources+"; a resource that is not listed has the default")
			fs.StringVar(&cfg.BindAddress, "bind-address", "", "IP address to serve HTTPS on (default all)")
			fs.StringVar(&cfg.ClientCAFile, "client-ca-file", "", "PEM file with the CAs that verify the API server's client certificate; it is reloaded when it changes (default: no client certificate is required)")
			fs.StringSliceVar(&cfg.ClientNames, "client-names", nil, "common names or DNS names that a client certificate may have (default: any)")
			fs.DurationVar(&cfg.ShutdownDelay, "shutdown-delay", 10*time.Second, "how long the webhook still answers after SIGTERM, while it is not ready; terminationGracePeriodSeconds of its pods must be 30s longer")
		},
		Validate: func() error { return cfg.validate() },
		Run:      func(ctx context.Context) error { return run(ctx, cfg) },
	}
}

func (c Config) validate() error {
	if err := certfiles.CheckDir(c.CertDir); err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf(`--port: "%d": must be between 1 and 65535`, c.Port)
	}
	if detail := api.CheckMode(api.Mode(c.DefaultMode)); detail != "" {
		return fmt.Errorf("--default-mode: %q: %s", c.DefaultMode, detail)
	}
	if detail := api.CheckUnknownPrograms(api.UnknownPrograms(c.UnknownPrograms)); detail != "" {
		return fmt.Errorf("--unknown-programs: %q: %s", c.UnknownPrograms, detail)
	}
	if detail := api.CheckTrustSource(api.TrustSource(c.TrustSource)); detail != "" {
		return fmt.Errorf("--trust-source: %q: %s", c.TrustSource, detail)
	}
	if err := pki.CheckTrustDomain(c.TrustDomain); c.TrustDomain != "" && err != nil {
		return fmt.Errorf("--trust-domain: %w", err)
	}
	if c.BindAddress != "" && net.ParseIP(c.BindAddress) == nil {
		return fmt.Errorf("--bind-address: %q: must be an IP address", c.BindAddress)
	}
	if c.ShutdownDelay < 0 || c.ShutdownDelay > maxShutdownDelay {
		return fmt.Errorf(`--shutdown-delay: "%s": must be between 0s and %s`, c.ShutdownDelay, maxShutdownDelay)
	}
	if err := c.validateProxy(); err != nil {
		return err
	}
	return c.validateClients()
}

func (c Config) validateProxy() error {
	if detail := api.CheckImage(c.ProxyImage); c.ProxyImage != "" && detail != "" {
		return fmt.Errorf("--proxy-image: %q: %s", c.ProxyImage, detail)
	}
	for _, name := range c.ProxyPullSecrets {
		if !api.IsSubdomain(name) {
			return fmt.Errorf("--proxy-pull-secrets: %q: must be names of Secrets, separated by commas", name)
		}
	}
	if _, detail := api.ParseProxyResources(c.ProxyResources); c.ProxyResources != "" && detail != "" {
		return fmt.Errorf("--proxy-resources: %q: %s", c.ProxyResources, detail)
	}
	return nil
}

func (c Config) validateClients() error {
	if len(c.ClientNames) > 0 && c.ClientCAFile == "" {
		return errors.New("--client-names: requires --client-ca-file")
	}
	if slices.Contains(c.ClientNames, "") {
		return fmt.Errorf("--client-names: %q: must be names of certificates, separated by commas", strings.Join(c.ClientNames, ","))
	}
	if info, err := os.Stat(c.ClientCAFile); err == nil && info.IsDir() {
		return fmt.Errorf("--client-ca-file: %q: is a directory: must be a PEM file with certificates", c.ClientCAFile)
	}
	return nil
}
