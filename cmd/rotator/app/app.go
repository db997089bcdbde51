// Package app implements the program rotator: its flags, their validation, and Run. The command
// only calls it, so that tests can run the program in their own executable.
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
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/pkg/trust"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
)

const about = `rotator keeps the CA bundle where clients look for it: in ConfigMap servingcert-ca.crt (key ca.crt)
of every namespace labelled servingcert.dev/inject=enabled, in ConfigMaps (key ca.crt), webhook
configurations, APIServices and CustomResourceDefinitions that are annotated
servingcert.dev/inject-ca-bundle: "true", and in ClusterTrustBundle servingcert.dev:serving:ca if
the API server has that kind. It writes one field of each, and only if it differs.

The bundle comes from ConfigMap servingcert-ca-status in --namespace, which the signer writes.
While it is missing or damaged, no target is changed. ConfigMap servingcert-trust-status in
--namespace lists the targets that hold the bundle, and those that do not, with the reason.

The rotator also finds pods without a Secret that they would get if they were created now: they are
older than their namespace's label or their Service, or were created while the webhook was not
available. It finds pods whose proxy connects to a Service that has changed since they were created,
too. Metric servingcert_missed_pods counts both by namespace, and an event on their workload
explains what to do.

A rotation is complete when the pods serve the new certificate. The rotator dials the pods that mount
a certificate, at the port of their Service, compares what they serve with the certificate in the
Service's condition servingcert.dev/Ready, and reports the result in condition
servingcert.dev/Serving. To make a rotation take a second instead of a minute, the rotator writes
annotation servingcert.dev/leaf on the pods as soon as their certificate or CA bundle changes: a
kubelet updates a pod's files at once when the pod changes. A workload that still serves an older
certificate gets event ServesOldCertificate, or is restarted if its pod template is annotated
servingcert.dev/on-rotate: restart.

A pod may fail because of what the webhook added. If an injected container exits repeatedly, or is not
ready a minute after its pod started, condition servingcert.dev/PodsHealthy of the Service and an event
quote the end of its output, and name the annotation that prevents the injection. The
rotator never reverts an injection.

The first of these tasks is --controllers=trust, all others are --controllers=pods. Each has its own
Lease and permissions: they are installed as two Deployments, and the one that dials pods may not write
CA bundles. Neither reads Secrets. Two replicas of each are enough: one works, the other waits.`

// Config holds the values of the flags.
type Config struct {
	Common *process.Common
	// Controllers are the names of the concerns that this process runs.
	Controllers []string
	// PublicRoots is the file that is read into Trust.PublicRoots; empty: none.
	PublicRoots string
	Trust       trustcontroller.Config
	Rotator     rotator.Config
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { MainWith(func(*Config) {}) }

// MainWith is Main for tests: change sets what no flag sets.
func MainWith(change func(*Config)) {
	cfg := defaults()
	change(&cfg)
	os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command(cfg)))
}

func defaults() Config {
	cfg := Config{Common: process.NewCommon(true), Controllers: concernNames(), Trust: trustcontroller.DefaultConfig(), Rotator: rotator.DefaultConfig()}
	cfg.Trust.Now, cfg.Trust.Metrics = time.Now, metrics.Registry
	cfg.Rotator.Cluster.Now, cfg.Rotator.Cluster.Metrics = time.Now, metrics.Registry
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
				"controllers to run: trust (keeps the CA bundle in its targets; Lease "+leaseTrust+"), pods (everything about pods; Lease "+leasePods+") or both")
			fs.StringSliceVar(&cfg.Trust.Targets, "targets", cfg.Trust.Targets,
				"kinds of targets that get the CA bundle: one or more of "+strings.Join(cfg.Trust.Targets, ", ")+"; each needs permission to get, list, watch and patch it")
			fs.BoolVar(&cfg.Trust.OpenShift, "openshift-compat", cfg.Trust.OpenShift,
				"also honor OpenShift's annotation "+api.OpenShiftInjectCABundle+"; the rotator does not start in a cluster where service-ca runs")
			fs.StringVar(&cfg.PublicRoots, "public-roots", "",
				"PEM file with public roots: ConfigMaps that ask for them by annotation "+api.AnnotationFormats+" or "+api.AnnotationTrust+" get a bundle of these and the CA's roots; it is read once, at the start (default: none)")
			fs.BoolVar(&cfg.Trust.BackendTLS, "backend-tls-policies", cfg.Trust.BackendTLS,
				"create a BackendTLSPolicy (Gateway API) for each Service annotated "+api.AnnotationBackendTLSPolicy+": \"true\"; requires the permissions in deploy/policies/backend-tls-policies.yaml")
			fs.IntVar(&cfg.Trust.Workers, "workers", cfg.Trust.Workers, "maximum number of targets of each kind that are written concurrently")
			fs.BoolVar(&cfg.Rotator.Serving.Verify, "verify-consumers", cfg.Rotator.Serving.Verify,
				"dial the pods that mount an issued certificate to check whether they serve it; if false, condition "+api.ConditionServing+" is unknown and nothing is restarted")
			fs.DurationVar(&cfg.Rotator.Serving.Interval, "verify-interval", cfg.Rotator.Serving.Interval,
				"time between two dials of a pod that serves its certificate, ±10%; the interval for other pods grows up to this value")
			fs.DurationVar(&cfg.Rotator.Serving.PropagationTime, "propagation-time", cfg.Rotator.Serving.PropagationTime,
				"time within which a pod must serve a new certificate (the kubelet takes up to 92s); after that it is stale")
			fs.BoolVar(&cfg.Rotator.KubeletSync.Enabled, "wake", cfg.Rotator.KubeletSync.Enabled,
				"write annotation "+api.AnnotationLeaf+" on the pods that mount a certificate or the CA bundle as soon as it changes, so that the kubelet updates their files at once; if false, this takes up to 92s")
			fs.IntVar(&cfg.Rotator.KubeletSync.Rate, "wake-rate", cfg.Rotator.KubeletSync.Rate, "maximum number of pods that are woken per second, cluster-wide")
			fs.IntVar(&cfg.Rotator.Probe.Concurrency, "probe-concurrency", cfg.Rotator.Probe.Concurrency, "maximum number of pods that are dialled concurrently")
			fs.DurationVar(&cfg.Rotator.Probe.Timeout, "probe-timeout", cfg.Rotator.Probe.Timeout, "time within which a pod's port must present its certificate")
			fs.StringSliceVar(&cfg.Rotator.Probe.PodCIDRs, "pod-cidrs", cfg.Rotator.Probe.PodCIDRs,
				"IP address ranges of pods; a pod with another address is not dialled, unless it is on the host network and has its node's address (default: all addresses except loopback, link-local, multicast, broadcast, unspecified and clouds' metadata services). A loopback or link-local address or a metadata service is dialled only if a range that contains it contains no other kind of address")
			fs.IntVar(&cfg.Rotator.Restart.Max, "max-restarts", cfg.Rotator.Restart.Max,
				"maximum number of workloads, cluster-wide, that are rolled out concurrently because their pods serve an old certificate and are annotated "+api.AnnotationOnRotate+": restart; 0: none")
			fs.DurationVar(&cfg.Trust.MaxBackoff, "max-backoff", cfg.Trust.MaxBackoff, "longest wait before a failed write to a target is retried")
		},
		Validate: func() error {
			cfg.Trust.Namespace, cfg.Rotator.Cluster.Namespace = cfg.Common.Namespace, cfg.Common.Namespace
			cfg.Rotator.Cluster.OpenShift = cfg.Trust.OpenShift
			return errors.Join(validateConcerns(cfg.Controllers), cfg.readPublicRoots(), cfg.validateTrust(), cfg.Rotator.Validate())
		},
		Run: func(ctx context.Context) error { return run(ctx, cfg) },
	}
}

// validateTrust returns an error if the configuration is invalid, or leaves out a kind of target without which pods
// are refused, or do not start: the webhook's caBundle, and the CA bundle that injected pods mount.
func (c *Config) validateTrust() error {
	if err := c.Trust.Validate(); err != nil {
		return err
	}
	for _, kind := range []string{"NamespaceConfigMap", "MutatingWebhookConfiguration"} {
		if !slices.Contains(c.Trust.Targets, kind) {
			return fmt.Errorf("--targets: %q: must include %s, which servingcert itself needs", strings.Join(c.Trust.Targets, ","), kind)
		}
	}
	return nil
}

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

// apiServer returns the address in host, a URL or HOST:PORT of the API server; none if it has a
// domain name.
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
