package rotator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	failing "github.com/servingcert/servingcert/pkg/rotator/failing/controller"
	missed "github.com/servingcert/servingcert/pkg/rotator/missed/controller"
	probe "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
	restart "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	serving "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	wake "github.com/servingcert/servingcert/pkg/rotator/wake/controller"
)

// AddToScheme adds the types that Setup's manager must know.
func AddToScheme(scheme *runtime.Scheme) error { return cluster.AddToScheme(scheme) }

// Setup adds the rotator to mgr. It works on the leader.
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
	if err := missed.Setup(c, cfg.Missed); err != nil {
		return fmt.Errorf("missed pods: %w", err)
	}
	looks := cluster.NewTrigger("stale workloads", c.Delay)
	ledger := serving.NewLedger(c)
	prober, err := probe.Setup(mgr, c, cfg.Probe, ledger.Record)
	if err != nil {
		return fmt.Errorf("prober: %w", err)
	}
	partners := serving.Partners{Dial: prober.Ask, Restarts: looks, Trust: prober.Trust}
	if cfg.Wake.Enabled {
		partners.Rotated = cluster.NewTrigger("rotated certificates", 0)
		err := wake.Setup(mgr, c, cfg.Wake, wake.Partners{Rotation: ledger.Rotation, Rotated: partners.Rotated, Serves: ledger.Serves, Woken: ledger.Woken})
		if err != nil {
			return fmt.Errorf("wakes: %w", err)
		}
	}
	if err := serving.Setup(c, cfg.Serving, ledger, partners); err != nil {
		return fmt.Errorf("consumers: %w", err)
	}
	if err := restart.Setup(mgr, c, cfg.Restart, restart.Partners{Stale: ledger.Stale, Looks: looks}); err != nil {
		return fmt.Errorf("restarts: %w", err)
	}
	if err := failing.Setup(c); err != nil {
		return fmt.Errorf("failing pods: %w", err)
	}
	return nil
}
