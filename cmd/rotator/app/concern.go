package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/pkg/rotator"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
)

// The Leases of the leaders. That of the pods keeps the name from when one process did both, so
// that two versions never process the same pods.
const (
	leaseTrust = "servingcert-trust"
	leasePods  = "servingcert-rotator"
)

// concern is a task of a rotator. Concerns share no memory: they communicate through objects of the
// cluster, so that each can run in its own process with its own permissions.
type concern struct {
	name, lease string
	addToScheme func(*runtime.Scheme) error
	setUp       func(manager.Manager, Config) error
}

// concerns returns all concerns, in the order of the documentation.
func concerns() []concern {
	return []concern{
		{"trust", leaseTrust, trustcontroller.AddToScheme, func(mgr manager.Manager, cfg Config) error { return trustcontroller.Setup(mgr, cfg.Trust) }},
		{"pods", leasePods, rotator.AddToScheme, func(mgr manager.Manager, cfg Config) error {
			cfg.Rotator.Probe.APIServer = apiServer(mgr.GetConfig().Host)
			return rotator.Setup(mgr, cfg.Rotator)
		}},
	}
}

func concernNames() []string {
	var names []string
	for _, c := range concerns() {
		names = append(names, c.name)
	}
	return names
}

// validateConcerns returns an error if the value of --controllers is not valid.
func validateConcerns(names []string) error {
	allowed := strings.Join(concernNames(), ", ")
	if len(names) == 0 {
		return fmt.Errorf(`--controllers: "": must list at least one of %s`, allowed)
	}
	for i, name := range names {
		if !slices.Contains(concernNames(), name) {
			return fmt.Errorf("--controllers: %q: unknown: must be one or both of %s", name, allowed)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("--controllers: %q: listed twice: must be one or both of %s", name, allowed)
		}
	}
	return nil
}

// run runs the concerns until ctx ends or one of them fails.
func run(ctx context.Context, cfg Config) error {
	if slices.Equal(cfg.Controllers, []string{"trust"}) {
		cfg.Common.Process = "trust" // as its Deployment: either of the two may be missing
	}
	var managers []manager.Manager
	for _, c := range concerns() {
		if !slices.Contains(cfg.Controllers, c.name) {
			continue
		}
		mgr, err := newManager(ctx, cfg, c, len(managers) == 0)
		if err != nil {
			return err
		}
		managers = append(managers, mgr)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, mgr := range managers {
		group.Go(func() error { return mgr.Start(ctx) })
	}
	return group.Wait()
}

// newManager returns the manager of a concern, which has its own leader election. The first manager
// of a process serves health and metrics for all.
func newManager(ctx context.Context, cfg Config, c concern, first bool) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := c.addToScheme(scheme); err != nil {
		return nil, err
	}
	rest, err := cfg.Common.RESTConfig(c.lease)
	if err != nil {
		return nil, err
	}
	mgr, err := process.NewManager(ctx, rest, cfg.Common.ManagerOptions(scheme, c.lease), cfg.Trust.OpenShift)
	if err != nil {
		return nil, err
	}
	if first {
		if err := errors.Join(cfg.Common.AddMetrics(mgr), cfg.Common.AddChecks(mgr, "ping", healthz.Ping)); err != nil {
			return nil, err
		}
	}
	return mgr, c.setUp(mgr, cfg)
}
