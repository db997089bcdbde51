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

// Config is all that Setup needs to know.
type Config struct {
	// Cluster is what all parts need.
	Cluster cluster.Config
	Missed  uninjectedcontroller.Config
	Probe   probecontroller.Config
	Serving servingcontroller.Config
	Wake    kubeletsynccontroller.Config
	Restart restartcontroller.Config
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags. Cluster.Now, Cluster.Metrics and Missed.Choose are the caller's.
func DefaultConfig() Config {
	return Config{
		Cluster: cluster.DefaultConfig(),
		Missed:  uninjectedcontroller.DefaultConfig(),
		Probe:   probecontroller.DefaultConfig(),
		Serving: servingcontroller.DefaultConfig(),
		Wake:    kubeletsynccontroller.DefaultConfig(),
		Restart: restartcontroller.DefaultConfig(),
	}
}

// Validate returns an error that says what is wrong and what is allowed, one line
// for each part.
func (c Config) Validate() error {
	return errors.Join(c.Cluster.Validate(), c.Missed.Validate(), c.Probe.Validate(), c.Serving.Validate(), c.Wake.Validate(), c.Restart.Validate())
}
