package simulate

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator"
)

// cores are those of the machine that Measured is of.
const cores = 2

// successionOfRotator is its CPU for each certificate of a succession, in milliseconds.
const successionOfRotator = 2.07

// Measured are the constants of the runs in docs/scale.md. Rates are what the cores can do by
// the CPU that everything takes together, so they are upper bounds.
func Measured() Constants {
	c := Constants{
		IssueCPU: 1.66, IssueAPIServer: 3.62,
		SuccessionCPU: 2.69, SuccessionAPI: 10.4,
		RestartEach: 0.3,
		SignerBase:  52, SignerEach: 8.9,
		RotatorBase: 50, RotatorEach: 5.8,
		DialCPU:       0.8,
		EtcdBytesEach: 4150,
	}
	c.IssueRate = cores * 1000 / (c.IssueCPU + c.IssueAPIServer)
	c.SuccessionRate = cores * 1000 / (c.SuccessionCPU + successionOfRotator + c.SuccessionAPI)
	return c
}

// dialEvery is how often the rotator dials a pod of which it expects nothing new.
func dialEvery() time.Duration { return rotator.DefaultConfig().Serving.Interval }
