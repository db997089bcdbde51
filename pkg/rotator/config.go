package rotator

import (
	"errors"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	kubeletsynccontroller "github.com/servingcert/servingcert/pkg/rotator/kubeletsync/controller"
	probecontroller "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
	restartcontroller "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	servingcontroller "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
)

// Config is the configuration of the rotator.
type Config struct {
	// Cluster is shared by all parts.
	Cluster     cluster.Config
	Uninjected  uninjectedcontroller.Config
	Probe       probecontroller.Config
	Serving     servingcontroller.Config
	KubeletSync kubeletsynccontroller.Config
	Restart     restartcontroller.Config
}

// DefaultConfig returns the configuration of a rotator without flags. The caller sets Cluster.Now
// and Cluster.Metrics.
func DefaultConfig() Config {
	return Config{
		Cluster:     cluster.DefaultConfig(),
		Uninjected:  uninjectedcontroller.DefaultConfig(),
		Probe:       probecontroller.DefaultConfig(),
		Serving:     servingcontroller.DefaultConfig(),
		KubeletSync: kubeletsynccontroller.DefaultConfig(),
		Restart:     restartcontroller.DefaultConfig(),
	}
}

// Validate returns an error that states what is wrong and what is allowed, one line for each part.
func (c Config) Validate() error {
	return errors.Join(c.Cluster.Validate(), c.Uninjected.Validate(), c.Probe.Validate(), c.Serving.Validate(), c.KubeletSync.Validate(), c.Restart.Validate())
}
