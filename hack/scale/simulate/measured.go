package simulate

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator"
)

// cores are those of the machine that Measured is of.
const cores = 2

// successionOfRotator is its CPU for each certificate of a succession, in milliseconds.
const successionOfRotator = 1.26

// Measured are the constants of the runs in docs/scale.md. Rates are what the cores can do by
// the CPU that everything takes together, so they are upper bounds.
func Measured() Constants {
	c := Constants{
		IssueCPU: 1.39, IssueAPIServer: 3.58,
		SuccessionCPU: 2.53, SuccessionAPI: 8.77,
		RestartEach: 0.32,
		SignerBase:  25, SignerEach: 11.2,
		RotatorBase: 49, RotatorEach: 4.5,
		DialCPU:       0.9,
		EtcdBytesEach: 4140,
	}
	c.IssueRate = cores * 1000 / (c.IssueCPU + c.IssueAPIServer)
	c.SuccessionRate = cores * 1000 / (c.SuccessionCPU + successionOfRotator + c.SuccessionAPI)
	return c
}

// dialEvery is how often the rotator dials a pod of which it expects nothing new.
func dialEvery() time.Duration { return rotator.DefaultConfig().Serving.Interval }
