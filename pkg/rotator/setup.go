package rotator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	failingcontroller "github.com/servingcert/servingcert/pkg/rotator/failing/controller"
	kubeletsynccontroller "github.com/servingcert/servingcert/pkg/rotator/kubeletsync/controller"
	probecontroller "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
	restartcontroller "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
)

// AddToScheme adds the types that Setup's manager needs.
func AddToScheme(scheme *runtime.Scheme) error { return cluster.AddToScheme(scheme) }

// Setup adds the rotator to mgr. It runs on the leader.
func Setup(mgr manager.Manager, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("rotator: %w", err)
	}
	if err := setup(mgr, cfg); err != nil {
		return fmt.Errorf("set up rotator: %w", err)
	}
	return nil
}

func setup(mgr manager.Manager, cfg Config) error {
	c, err := cluster.New(mgr, cfg.Cluster)
	if err != nil {
		return err
	}
	staleChanged := cluster.NewTrigger("stale workloads", c.Delay)
	state := servingcontroller.NewState(c)
	if err := uninjectedcontroller.Setup(c, cfg.Uninjected, state.PodsChanged); err != nil {
		return fmt.Errorf("uninjected pods: %w", err)
	}
	prober, err := probecontroller.Setup(mgr, c, cfg.Probe, state.Record)
	if err != nil {
		return fmt.Errorf("prober: %w", err)
	}
	deps := servingcontroller.Dependencies{Prober: prober, StaleChanged: staleChanged}
	if cfg.KubeletSync.Enabled {
		deps.Rotated = cluster.NewTrigger("rotated certificates", 0)
	}
	if err := kubeletsynccontroller.Setup(mgr, c, cfg.KubeletSync, state, deps.Rotated); err != nil {
		return fmt.Errorf("kubelet sync: %w", err)
	}
	if err := servingcontroller.Setup(c, cfg.Serving, state, deps); err != nil {
		return fmt.Errorf("consumers: %w", err)
	}
	if err := restartcontroller.Setup(mgr, c, cfg.Restart, state, staleChanged); err != nil {
		return fmt.Errorf("restarts: %w", err)
	}
	if err := failingcontroller.Setup(c); err != nil {
		return fmt.Errorf("failing pods: %w", err)
	}
	return nil
}
