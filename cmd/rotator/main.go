// Command rotator carries the CA bundle, and what follows from a rotation, to
// those who use it, and finds the pods that the webhook missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/servingcert/servingcert/cmd/internal/decision"
	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
)

// leaseName is the Lease of the replica that leads.
const leaseName = "servingcert-rotator"

const about = `rotator keeps the CA bundle where clients look for it: in ConfigMap servingcert-ca.crt (key ca.crt)
of every namespace labelled servingcert.dev/inject=enabled, in ConfigMaps (key ca.crt), webhook
configurations, APIServices and CustomResourceDefinitions that are annotated
servingcert.dev/inject-ca-bundle: "true", and in ClusterTrustBundle servingcert.dev:serving:ca where
the API server has that kind. It writes one field of each, and only when it differs.

The bundle comes from ConfigMap servingcert-ca-status in --namespace, which the signer writes.
As long as that is missing or damaged, no target is changed. ConfigMap servingcert-trust-status
in --namespace says which targets hold the bundle, and which do not and why.

It also finds the pods that would get a Secret if they were created now and run without it: those
older than their namespace's label or their Service, or created while the webhook was away. Metric
servingcert_missed_pods counts them by namespace, and an event on their workload says what to do.

A rotation is done when the pods serve the new certificate: those that mount one are dialled at their
Service's port, and compared with what the Service's condition servingcert.dev/Ready names. Condition
servingcert.dev/Serving says what was found. What does not reload is told of by event
ServesOldCertificate, or restarted if its pod template is annotated servingcert.dev/on-rotate: restart.

It reads no Secrets. Two replicas are enough: one works, the other waits.`

// Config is all that the flags say.
type Config struct {
	Common  *process.Common
	Trust   trustcontroller.Config
	Rotator rotator.Config
}

func main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }

func command() process.Command {
	cfg := Config{Common: process.NewCommon(true), Trust: trustcontroller.DefaultConfig(), Rotator: rotator.DefaultConfig()}
	cfg.Trust.Now, cfg.Trust.Metrics = time.Now, metrics.Registry
	cfg.Rotator.Now, cfg.Rotator.Metrics, cfg.Rotator.Choose = time.Now, metrics.Registry, decision.Choose
	return process.Command{
		Name:   "rotator",
		About:  about,
		Common: cfg.Common,
		Flags: func(fs *pflag.FlagSet) {
			fs.StringSliceVar(&cfg.Trust.Targets, "targets", cfg.Trust.Targets,
				"kinds of target to keep the CA bundle in: one or more of "+strings.Join(cfg.Trust.Targets, ", ")+"; each needs permission to get, list, watch and patch it")
			fs.BoolVar(&cfg.Trust.OpenShift, "openshift-compat", cfg.Trust.OpenShift,
				"honor OpenShift's annotation "+api.OpenShiftInjectCABundle+" too; the rotator does not start in a cluster where service-ca runs")
			fs.IntVar(&cfg.Trust.Workers, "workers", cfg.Trust.Workers, "maximum number of targets of each kind to write at the same time")
			fs.BoolVar(&cfg.Rotator.VerifyConsumers, "verify-consumers", cfg.Rotator.VerifyConsumers,
				"dial the pods that mount an issued certificate, to see whether they serve it; without, condition "+api.ConditionServing+" says nothing and nothing is restarted")
			fs.DurationVar(&cfg.Rotator.VerifyInterval, "verify-interval", cfg.Rotator.VerifyInterval,
				"how long a pod that serves its certificate is left alone, give or take a tenth; one that does not is dialled less and less often, down to this")
			fs.DurationVar(&cfg.Rotator.PropagationTime, "propagation-time", cfg.Rotator.PropagationTime,
				"how long a new certificate may take until a pod serves it (the kubelet takes up to 92s); after that the pod is stale")
			fs.IntVar(&cfg.Rotator.ProbeConcurrency, "probe-concurrency", cfg.Rotator.ProbeConcurrency, "pods that are dialled at a time")
			fs.DurationVar(&cfg.Rotator.ProbeTimeout, "probe-timeout", cfg.Rotator.ProbeTimeout, "how long a port of a pod may take to show its certificate")
			fs.IntVar(&cfg.Rotator.Restarts.Max, "max-restarts", cfg.Rotator.Restarts.Max,
				"workloads that may roll out at a time, in the whole cluster, because their pods serve an old certificate and say "+api.AnnotationOnRotate+": restart; 0: none is restarted")
			fs.DurationVar(&cfg.Trust.MaxBackoff, "max-backoff", cfg.Trust.MaxBackoff, "longest wait before a failed write to a target is retried")
		},
		Validate: func() error {
			cfg.Trust.Namespace, cfg.Rotator.Namespace = cfg.Common.Namespace, cfg.Common.Namespace
			cfg.Rotator.OpenShift = cfg.Trust.OpenShift
			return errors.Join(cfg.Trust.Validate(), cfg.Rotator.Validate())
		},
		Run: func(ctx context.Context) error { return run(ctx, cfg) },
	}
}

func run(ctx context.Context, cfg Config) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(trustcontroller.AddToScheme(scheme), rotator.AddToScheme(scheme)); err != nil {
		return err
	}
	rest, err := cfg.Common.RESTConfig(leaseName)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(rest, cfg.Common.ManagerOptions(scheme, leaseName))
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	if cfg.Trust.OpenShift {
		if err := process.RefuseBesideServiceCA(ctx, mgr.GetAPIReader()); err != nil {
			return err
		}
	}
	if err := process.AddChecks(mgr, "ping", healthz.Ping); err != nil {
		return err
	}
	if err := trustcontroller.Setup(mgr, cfg.Trust); err != nil {
		return err
	}
	if err := rotator.Setup(mgr, cfg.Rotator); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
