package rotator

import (
	"errors"

	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	missed "github.com/servingcert/servingcert/pkg/rotator/missed/controller"
	probe "github.com/servingcert/servingcert/pkg/rotator/probe/controller"
	restart "github.com/servingcert/servingcert/pkg/rotator/restart/controller"
	serving "github.com/servingcert/servingcert/pkg/rotator/serving/controller"
	wake "github.com/servingcert/servingcert/pkg/rotator/wake/controller"
)

// Config is all that Setup needs to know.
type Config struct {
	// Cluster is what all parts need.
	Cluster cluster.Config
	Missed  missed.Config
	Probe   probe.Config
	Serving serving.Config
	Wake    wake.Config
	Restart restart.Config
}

// DefaultConfig returns the configuration of a rotator that is started without
// flags. Cluster.Now, Cluster.Metrics and Missed.Choose are the caller's.
func DefaultConfig() Config {
	return Config{
		Cluster: cluster.DefaultConfig(),
		Missed:  missed.DefaultConfig(),
		Probe:   probe.DefaultConfig(),
		Serving: serving.DefaultConfig(),
		Wake:    wake.DefaultConfig(),
		Restart: restart.DefaultConfig(),
	}
}

// Validate returns an error that says what is wrong and what is allowed, one line
// for each part.
func (c Config) Validate() error {
	return errors.Join(c.Cluster.Validate(), c.Missed.Validate(), c.Probe.Validate(), c.Serving.Validate(), c.Wake.Validate(), c.Restart.Validate())
}
