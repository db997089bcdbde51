// Package app is the program webhook: its flags, what is wrong with them, and what runs by them. The
// command of that name only calls it, so that a test can run the program in its own executable.
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
)

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

// Config is what the webhook needs to run.
type Config struct {
	Common *process.Common

	// CertDir contains tls.crt and tls.key, as the kubelet projects them. They may
	// appear after the process has started, and may change.
	CertDir string
	// BindAddress is the IP address to listen on; empty: all.
	BindAddress string
	Port        int
	// ClientCAFile contains the CAs of client certificates. It may appear after the process
	// has started, and may change. Empty: clients need no certificate.
	ClientCAFile string
	// ClientNames are the common names or DNS names of which a client certificate must
	// have one; empty: any.
	ClientNames []string
	// OpenShift lets Services ask with the annotations of OpenShift's service-ca too.
	OpenShift bool
	// DefaultMode is the mode of pods for which nobody says one.
	DefaultMode string
	// UnknownPrograms says what programs that are not known get.
	UnknownPrograms string
	// TrustSource is the object from which pods get the CA bundle.
	TrustSource string
	// PublicRoots is true if the rotator writes the public roots beside the CA bundle.
	PublicRoots bool
	// ProxyImage is the image of the proxy that pods get whose Services ask for one.
	ProxyImage string
	// ProxyPullSecrets are the names of Secrets of users' namespaces with which it is pulled.
	ProxyPullSecrets []string
	// ProxyResources are what the proxy gets in pods whose containers have requests or limits, as
	// in api.AnnotationProxyResources.
	ProxyResources string
	// ShutdownDelay is how long the webhook answers after it was told to end.
	ShutdownDelay time.Duration
}

// maxShutdownDelay is longer than any cluster takes to learn of an endpoint that ends, and
// short enough for a Deployment to make progress.
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
				"also accept OpenShift's annotation "+api.OpenShiftSecretName+" on Services; the namespace still needs its label; the process does not start in a cluster where service-ca runs")
			fs.StringVar(&cfg.DefaultMode, "default-mode", string(api.ModeArgs), "mode (args, env or mount) of pods for which neither pod nor Service nor namespace says one in "+api.AnnotationMode)
			fs.StringVar(&cfg.UnknownPrograms, "unknown-programs", string(api.UnknownProgramsFiles), "what a program that is not known gets in mode args where nobody asks for flags: files (files and environment) or flags (also "+api.DefaultCertFlag+" and "+api.DefaultKeyFlag+", with which most exit)")
			fs.StringVar(&cfg.TrustSource, "trust-source", string(api.TrustFromConfigMap),
				"object from which pods get the CA bundle: configmap ("+api.BundleName+" of their namespace) or clustertrustbundle ("+api.TrustBundleName+"), which all API servers and kubelets need to have: of Kubernetes 1.37, or with feature gates ClusterTrustBundle and ClusterTrustBundleProjection")
			fs.BoolVar(&cfg.PublicRoots, "public-roots", false,
				"the rotator is configured with public roots, so that ConfigMap "+api.BundleName+" of Namespaces annotated "+api.AnnotationTrust+": "+string(api.TrustEnv)+" has them too; only then pods get the variables that replace what a program trusts")
			fs.StringVar(&cfg.ProxyImage, "proxy-image", "", "image of the proxy that terminates TLS in pods whose Services have a targetPort sc-tls-PORT or sc-any-PORT; best with its digest, as NAME@sha256:… (default: pods get no proxy, and a warning)")
			fs.StringSliceVar(&cfg.ProxyPullSecrets, "proxy-pull-secrets", nil, "names of Secrets that pods with the proxy get as imagePullSecrets, so that its image can be pulled; one that their namespace does not have is ignored by the kubelet (default: none)")
			fs.StringVar(&cfg.ProxyResources, "proxy-resources", api.DefaultProxyResources, "requests and limits of the proxy in pods whose containers have some, where nobody says others in "+api.AnnotationProxyResources+"; what is not listed has the default")
			fs.StringVar(&cfg.BindAddress, "bind-address", "", "IP address to serve HTTPS on (default all)")
			fs.StringVar(&cfg.ClientCAFile, "client-ca-file", "", "file with the CAs, in PEM, of which the API server must present a client certificate; it is loaded again when it changes (default: no certificate is demanded)")
			fs.StringSliceVar(&cfg.ClientNames, "client-names", nil, "common names or DNS names, of which a client certificate must have one (default: any certificate of --client-ca-file)")
			fs.DurationVar(&cfg.ShutdownDelay, "shutdown-delay", 10*time.Second, "how long the webhook still answers, not ready, after it was told to end; terminationGracePeriodSeconds of its pods must be longer by half a minute")
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
	if c.BindAddress != "" && net.ParseIP(c.BindAddress) == nil {
		return fmt.Errorf("--bind-address: %q: must be an IP address", c.BindAddress)
	}
	if c.ShutdownDelay < 0 || c.ShutdownDelay > maxShutdownDelay {
		return fmt.Errorf(`--shutdown-delay: "%s": must be between 0s and %s`, c.ShutdownDelay, maxShutdownDelay)
	}
	return c.validateClients()
}

func (c Config) validateClients() error {
	if len(c.ClientNames) > 0 && c.ClientCAFile == "" {
		return errors.New("--client-names: needs --client-ca-file, the CAs of these clients")
	}
	if slices.Contains(c.ClientNames, "") {
		return fmt.Errorf("--client-names: %q: must be names of certificates, separated by commas", strings.Join(c.ClientNames, ","))
	}
	if info, err := os.Stat(c.ClientCAFile); err == nil && info.IsDir() {
		return fmt.Errorf("--client-ca-file: %q: is a directory: must be a file with certificates in PEM", c.ClientCAFile)
	}
	return nil
}
