package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestTheFirstRenewalsAreSpreadOverAFifthOfTheLifetime(t *testing.T) {
	const n = 10_000
	load := Simulate(Patterns()[0], n, month, month)
	assert.Equal(t, n, load.Created[0])
	renewed := PeakOf(load.Renewed)
	assert.Equal(t, n, renewed.Total, "each once: the next is due no earlier than in the second month")
	for minute, count := range load.Renewed {
		if at := time.Duration(minute) * time.Minute; count > 0 {
			assert.True(t, at >= 21*day-10*time.Minute && at <= 27*day, "%s", at)
		}
	}
	// 10 000 in 8640 minutes by chance: 1.16 a minute; more than 12 in one has a chance below
	// 1 in a million.
	assert.LessOrEqual(t, renewed.Busiest, 12)
	assert.InDelta(t, float64(n)/(6*24*60), renewed.Hour, 0.7)
}

func TestASuccessionIsSpreadOverItsWindow(t *testing.T) {
	const n = 10_000
	load := Simulate(Patterns()[3], n, month, 2*month)
	replaced := PeakOf(load.Replaced)
	assert.Equal(t, n, replaced.Total, "each once, and before its own time")
	first := int(15 * day / time.Minute)
	within := PeakOf(load.Replaced[first : first+10])
	assert.Equal(t, n, within.Total, "in ten minutes")
	assert.LessOrEqual(t, within.OverMean(), 1.15)
	assert.Zero(t, PeakOf(load.Renewed[:first+int(20*day/time.Minute)]).Total, "what was replaced on day 15 is not due for three weeks")
}

func TestEveryPatternIssuesEachCertificateOnceInItsMonth(t *testing.T) {
	for _, p := range Patterns() {
		for _, n := range []int{3, 100_000} {
			load := Simulate(p, n, month, month)
			assert.Equal(t, n, PeakOf(load.Created).Total, p.Name)
		}
	}
}

func TestPeakOf(t *testing.T) {
	minutes := make([]int, 120)
	minutes[0], minutes[59], minutes[60], minutes[119] = 6, 60, 120, 6
	p := PeakOf(minutes)
	assert.Equal(t, 192, p.Total)
	assert.Equal(t, 120, p.Busiest)
	assert.InDelta(t, 3, p.Hour, 1e-9, "minutes 1 to 60")
	assert.InDelta(t, 1.6, p.Mean, 1e-9)
	assert.InDelta(t, 75, p.OverMean(), 1e-9)
}

func TestTheRenewalIsTheProducts(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cert := certificate(1, 2, now, month)
	assert.Equal(t, month+pki.Backdate, pki.Lifetime(cert), "as the signer backdates")
	assert.NotEqual(t, pki.RenewAt(cert), pki.RenewAt(certificate(1, 3, now, month)))
	assert.NotEqual(t, pki.RenewAt(cert), pki.RenewAt(certificate(2, 2, now, month)))
}

func TestExtrapolation(t *testing.T) {
	c := Constants{
		IssueCPU: 2, IssueRate: 200, SuccessionRate: 100, RestartEach: 0.5,
		SignerBase: 40, SignerEach: 4, RotatorBase: 50, RotatorEach: 2, DialCPU: 1, EtcdBytesEach: 4096,
	}
	e := c.For(20_480, 36_000, 100*time.Hour, time.Hour)
	assert.InDelta(t, 20_480/(80*3600.0), e.RenewalsASecond, 1e-9, "renewed after 0.8 of the lifetime, in the mean")
	assert.Equal(t, 102400*time.Millisecond, e.Issue)
	assert.Equal(t, 204800*time.Millisecond, e.Succession)
	assert.Equal(t, 10240*time.Millisecond, e.Restart)
	assert.InDelta(t, 40+80, e.SignerMiB, 1e-9)
	assert.InDelta(t, 80, e.EtcdMiB, 1e-9)
	assert.InDelta(t, e.RenewalsASecond*0.002, e.SignerCores, 1e-12)
	assert.InDelta(t, 10+36_000/(80*3600.0), e.DialsASecond, 1e-9, "one a pod an hour, and one a renewal")
	assert.InDelta(t, e.DialsASecond*0.001, e.RotatorCores, 1e-12)
	assert.InDelta(t, 50+36_000*2/1024.0, e.RotatorMiB, 1e-9)
}
