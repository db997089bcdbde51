package simulate

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator"
)

// Measured are the constants of the run in docs/scale.md.
func Measured() Constants {
	return Constants{IssueCPU: 2.4, IssueAPIServer: 4, IssueRate: 200, SuccessionRate: 120, SuccessionAPI: 8, RestartEach: 0.3, SignerBase: 42, SignerEach: 6,
		RotatorBase: 45, RotatorEach: 3, DialCPU: 1.2, RenewalAPI: 4, EtcdBytesEach: 4200, BundleAPIServer: 2}
}

// dialEvery is how often the rotator dials a pod of which it expects nothing new.
func dialEvery() time.Duration { return rotator.DefaultConfig().Serving.Interval }
