// Package app is the program rotator: its flags, what is wrong with them, and what runs by them. The
// command of that name only calls it, so that a test can run the program in its own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/decision"
	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/pkg/trust"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
)

const about = `rotator keeps the CA bundle where clients look for it: in ConfigMap servingcert-ca.crt (key ca.crt)
of every namespace labelled servingcert.dev/inject=enabled, in ConfigMaps (key ca.crt), webhook
configurations, APIServices and CustomResourceDefinitions that are annotated
servingcert.dev/inject-ca-bundle: "true", and in ClusterTrustBundle servingcert.dev:serving:ca where
the API server has that kind. It writes one field of each, and only when it differs.

The bundle comes from ConfigMap servingcert-ca-status in --namespace, which the signer writes.
As long as that is missing or damaged, no target is changed. ConfigMap servingcert-trust-status
in --namespace says which targets hold the bundle, and which do not and why.

It also finds the pods that run without a Secret that they would get if they were created now: they
are older than the label of their namespace or than their Service, or were created while the webhook
was not available. Metric servingcert_missed_pods counts them by namespace, and an event on their
workload says what to do.

A rotation is complete when the pods serve the new certificate. The rotator dials the pods that mount
a certificate, at the port of their Service, and compares what they serve with the certificate that
condition servingcert.dev/Ready of the Service names. Condition servingcert.dev/Serving says what it
found. So that this takes about a second and not a minute, the rotator writes annotation
servingcert.dev/leaf on the pods as soon as their certificate or CA bundle changes: a kubelet updates
the files of a pod at once when the pod changes. A workload that still serves an older certificate gets event ServesOldCertificate, or is
restarted if its pod template is annotated servingcert.dev/on-rotate: restart.

A pod may fail because of what the webhook added. If a container that was given something exits again
and again, or is not ready a minute after its pod was started, condition servingcert.dev/PodsHealthy of
the Service and an event quote the end of what it wrote, and name the annotation that leaves out what
was added. The rotator takes nothing back by itself.

The first of these is --controllers=trust, all others are --controllers=pods. Each has a Lease of its
own, and rights of its own: installed, they are two Deployments, of which the one that dials pods may
write no CA bundle. Neither reads Secrets. Of each, two replicas are enough: one works, the other waits.`

// Config is all that the flags say.
type Config struct {
	Common *process.Common
	// Controllers are the names of the concerns that this process runs.
	Controllers []string
	// PublicRoots is the file of Trust.PublicRoots; empty for none.
	PublicRoots string
	Trust       trustcontroller.Config
	Rotator     rotator.Config
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { MainWith(func(*Config) {}) }

// MainWith is Main for tests, which change what no flag sets.
func MainWith(change func(*Config)) {
	cfg := defaults()
	change(&cfg)
	os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command(cfg)))
}

func defaults() Config {
	cfg := Config{Common: process.NewCommon(true), Controllers: concernNames(), Trust: trustcontroller.DefaultConfig(), Rotator: rotator.DefaultConfig()}
	cfg.Trust.Now, cfg.Trust.Metrics = time.Now, metrics.Registry
	cfg.Rotator.Cluster.Now, cfg.Rotator.Cluster.Metrics, cfg.Rotator.Missed.Choose = time.Now, metrics.Registry, decision.Choose
	return cfg
}

func command(cfg Config) process.Command {
	return process.Command{
		Name:   "rotator",
		About:  about,
		Common: cfg.Common,
		Flags: func(fs *pflag.FlagSet) {
			fs.Lookup("leader-elect").Usage = "run each of --controllers only while holding its Lease in --namespace"
			fs.StringSliceVar(&cfg.Controllers, "controllers", cfg.Controllers,
				"what this process does, one or both of trust (keep the CA bundle in its targets; Lease "+leaseTrust+") and pods (all that is about pods; Lease "+leasePods+")")
			fs.StringSliceVar(&cfg.Trust.Targets, "targets", cfg.Trust.Targets,
				"kinds of target to keep the CA bundle in: one or more of "+strings.Join(cfg.Trust.Targets, ", ")+"; each needs permission to get, list, watch and patch it")
			fs.BoolVar(&cfg.Trust.OpenShift, "openshift-compat", cfg.Trust.OpenShift,
				"honor OpenShift's annotation "+api.OpenShiftInjectCABundle+" too; the rotator does not start in a cluster where service-ca runs")
			fs.StringVar(&cfg.PublicRoots, "public-roots", "",
				"file with public roots, in PEM: ConfigMaps that ask for it by annotation "+api.AnnotationFormats+" or "+api.AnnotationTrust+" get a bundle with these and the CA's; it is read once, at the start (default: there is no such bundle)")
			fs.BoolVar(&cfg.Trust.BackendTLS, "backend-tls-policies", cfg.Trust.BackendTLS,
				"make a BackendTLSPolicy of the Gateway API for each Service that is annotated "+api.AnnotationBackendTLSPolicy+": \"true\"; needs the permissions of deploy/policies/backend-tls-policies.yaml")
			fs.IntVar(&cfg.Trust.Workers, "workers", cfg.Trust.Workers, "maximum number of targets of each kind to write at the same time")
			fs.BoolVar(&cfg.Rotator.Serving.Verify, "verify-consumers", cfg.Rotator.Serving.Verify,
				"dial the pods that mount an issued certificate, to see whether they serve it; if false, condition "+api.ConditionServing+" is unknown and nothing is restarted")
			fs.DurationVar(&cfg.Rotator.Serving.Interval, "verify-interval", cfg.Rotator.Serving.Interval,
				"time between two dials of a pod that serves its certificate, give or take 10%; a pod that does not is dialled less and less often, until this is the time between two dials")
			fs.DurationVar(&cfg.Rotator.Serving.PropagationTime, "propagation-time", cfg.Rotator.Serving.PropagationTime,
				"time that a new certificate may take until a pod serves it (the kubelet takes up to 92s); after that the pod is stale")
			fs.BoolVar(&cfg.Rotator.Wake.Enabled, "wake", cfg.Rotator.Wake.Enabled,
				"write annotation "+api.AnnotationLeaf+" on the pods that mount a certificate or the CA bundle as soon as that changes, so that the kubelet updates their files at once; if false, that takes up to 92s")
			fs.IntVar(&cfg.Rotator.Wake.Rate, "wake-rate", cfg.Rotator.Wake.Rate, "pods of the whole cluster that are written per second for --wake")
			fs.IntVar(&cfg.Rotator.Probe.Concurrency, "probe-concurrency", cfg.Rotator.Probe.Concurrency, "pods that are dialled at a time")
			fs.DurationVar(&cfg.Rotator.Probe.Timeout, "probe-timeout", cfg.Rotator.Probe.Timeout, "time that a port of a pod may take to show its certificate")
			fs.StringSliceVar(&cfg.Rotator.Probe.PodCIDRs, "pod-cidrs", cfg.Rotator.Probe.PodCIDRs,
				"ranges of IP addresses that pods have; pods with other addresses are not dialled, unless they are on the host network and have their node's. Without it: any but loopback, link-local, multicast, broadcast and unspecified addresses, and those of clouds' metadata services. A loopback or link-local range, or a metadata service, must be named by itself")
			fs.IntVar(&cfg.Rotator.Restart.Max, "max-restarts", cfg.Rotator.Restart.Max,
				"workloads of the whole cluster that may roll out at a time because their pods serve an old certificate and are annotated "+api.AnnotationOnRotate+": restart; 0 restarts none")
			fs.DurationVar(&cfg.Trust.MaxBackoff, "max-backoff", cfg.Trust.MaxBackoff, "longest wait before a failed write to a target is retried")
		},
		Validate: func() error {
			cfg.Trust.Namespace, cfg.Rotator.Cluster.Namespace = cfg.Common.Namespace, cfg.Common.Namespace
			cfg.Rotator.Cluster.OpenShift = cfg.Trust.OpenShift
			return errors.Join(validateConcerns(cfg.Controllers), cfg.readPublicRoots(), cfg.Trust.Validate(), cfg.Rotator.Validate())
		},
		Run: func(ctx context.Context) error { return run(ctx, cfg) },
	}
}

// readPublicRoots reads the file with public roots, if there is one.
func (c *Config) readPublicRoots() error {
	if c.PublicRoots == "" {
		return nil
	}
	file, err := os.Open(c.PublicRoots)
	if err != nil {
		return fmt.Errorf("--public-roots: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, trust.MaxPublicRoots+1))
	if err != nil {
		return fmt.Errorf("--public-roots: %w", err)
	}
	if c.Trust.PublicRoots, err = trust.ParsePublicRoots(data); err != nil {
		return fmt.Errorf("--public-roots: %q: %w: must be a file with root certificates in PEM, without private keys or text, and of at most %d KiB", c.PublicRoots, err, trust.MaxPublicRoots>>10)
	}
	return nil
}

// apiServer returns the addresses of the API server that a kubeconfig's or the pod's own
// host, a URL or HOST:PORT, names; none if it names a domain.
func apiServer(host string) []netip.Addr {
	if u, err := url.Parse(host); err == nil && u.Hostname() != "" {
		host = u.Hostname()
	} else if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}
	}
	return nil
}
