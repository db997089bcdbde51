package simulate

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator"
)

// cores are those of the machine that Measured is of.
const cores = 2

// What a certificate takes of the CPU, in milliseconds. The API server's is that of kube-apiserver and etcd.
const (
	issue                 = 1.39 // the signer
	issueOfAPIServer      = 3.58
	succession            = 2.53 // the signer
	successionOfRotator   = 1.26
	successionOfAPIServer = 8.77
)

// Measured are the constants of the runs in docs/scale.md. Rates are what the cores can do by
// the CPU that everything takes together, so they are upper bounds.
func Measured() Constants {
	return Constants{
		IssueCPU: issue, IssueRate: cores * 1000 / (issue + issueOfAPIServer),
		SuccessionRate: cores * 1000 / (succession + successionOfRotator + successionOfAPIServer),
		RestartEach:    0.32,
		SignerBase:     25, SignerEach: 11.2,
		RotatorBase: 49, RotatorEach: 4.5,
		DialCPU:       0.9,
		EtcdBytesEach: 4140,
	}
}

// dialEvery is how often the rotator dials a pod of which it expects nothing new.
func dialEvery() time.Duration { return rotator.DefaultConfig().Serving.Interval }
