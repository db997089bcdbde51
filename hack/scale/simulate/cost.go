package simulate

import "time"

// Constants are what one of a thing costs, as measured by this program on two cores that run
// etcd, kube-apiserver and servingcert together. docs/scale.md has the run.
type Constants struct {
	IssueCPU       float64 // ms of the signer's CPU a certificate
	IssueRate      float64 // certificates a second, on those two cores
	SuccessionRate float64 // the same when the CA is replaced
	RestartEach    float64 // ms a certificate until a restarted signer has looked at it
	SignerBase     float64 // MiB that a signer with no certificate needs
	SignerEach     float64 // KiB of RSS a certificate, at the most: in a succession
	RotatorBase    float64 // MiB
	RotatorEach    float64 // KiB of RSS a followed pod
	DialCPU        float64 // ms of the rotator's CPU a dial
	EtcdBytesEach  float64 // bytes a certificate: its Secret and its condition
}

// Extrapolated is what a cluster of some size would need.
type Extrapolated struct {
	Services, Pods  int
	RenewalsASecond float64 // in steady state
	Issue, Restart  time.Duration
	Succession      time.Duration
	SignerMiB       float64
	RotatorMiB      float64
	EtcdMiB         float64
	SignerCores     float64 // in steady state
	DialsASecond    float64 // one a pod an hour, and one a renewal
	RotatorCores    float64
}

// renewEvery is the mean of the time between two renewals of a certificate: RenewAt is
// between 0.7 and 0.9 of the lifetime.
func renewEvery(lifetime time.Duration) time.Duration { return lifetime * 8 / 10 }

// For extrapolates to a cluster of some size. dialEvery is how often the rotator dials a pod
// of which it expects nothing new.
func (c Constants) For(services, pods int, lifetime, dialEvery time.Duration) Extrapolated {
	e := Extrapolated{Services: services, Pods: pods}
	n, p := float64(services), float64(pods)
	e.RenewalsASecond = n / renewEvery(lifetime).Seconds()
	e.Issue = seconds(n / c.IssueRate)
	e.Restart = seconds(n * c.RestartEach / 1000)
	e.Succession = seconds(n / c.SuccessionRate)
	e.SignerMiB = c.SignerBase + n*c.SignerEach/1024
	e.RotatorMiB = c.RotatorBase + p*c.RotatorEach/1024
	e.EtcdMiB = n * c.EtcdBytesEach / (1 << 20)
	e.SignerCores = e.RenewalsASecond * c.IssueCPU / 1000
	e.DialsASecond = p/dialEvery.Seconds() + p/renewEvery(lifetime).Seconds()
	e.RotatorCores = e.DialsASecond * c.DialCPU / 1000
	return e
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
