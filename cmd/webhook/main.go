// Command webhook answers the AdmissionReviews of pods that are created in
// opted-in namespaces. Every replica is active, and none writes objects.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
)

func main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

// Config is what the webhook needs to run.
type Config struct {
	Common *process.Common

	// CertDir contains tls.crt and tls.key, as the kubelet projects them. They may
	// appear after the process has started, and may change.
	CertDir string
	// BindAddress is the IP address to listen on; empty: all.
	BindAddress string
	Port        int
	// OpenShift lets Services ask with the annotations of OpenShift's service-ca too.
	OpenShift bool
	// DefaultMode is the mode of pods for which nobody says one.
	DefaultMode string
}

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
			fs.StringVar(&cfg.BindAddress, "bind-address", "", "IP address to serve HTTPS on (default all)")
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
	if c.BindAddress != "" && net.ParseIP(c.BindAddress) == nil {
		return fmt.Errorf("--bind-address: %q: must be an IP address", c.BindAddress)
	}
	return nil
}
