package simulate

import (
	"fmt"
	"slices"
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

func TestZipf(t *testing.T) {
	namespaces := Zipf(4, 1000, 1)
	sizes := make([]int, 0, 4)
	for _, ns := range namespaces {
		sizes = append(sizes, ns.Certificates)
	}
	assert.Equal(t, []int{480, 240, 160, 120}, sizes)
	for _, ns := range Zipf(3, 300, 0) {
		assert.Equal(t, 100, ns.Certificates)
	}
	assert.Equal(t, 1, Zipf(1000, 10, 1)[999].Certificates, "no namespace is empty")
}

func TestOneMoreShardTakesFromAllAndNothingElseMoves(t *testing.T) {
	namespaces := Zipf(20_000, 20_000, 0)
	for k := 1; k <= 8; k++ {
		m := Grow(namespaces, k, Rendezvous)
		assert.Zero(t, m.BetweenOld, "from %d", k)
		assert.InDelta(t, 1/float64(k+1), m.Namespaces, 0.02, "from %d", k)
		assert.InDelta(t, m.Namespaces, m.Certificates, 1e-9, "all of the same size")
	}
	assert.Greater(t, Grow(namespaces, 4, Modulo).Namespaces, 0.7, "what the modulus of a hash would move")
	assert.Positive(t, Grow(namespaces, 4, Modulo).BetweenOld)
}

func TestShardsOfEqualNamespacesAreBalanced(t *testing.T) {
	namespaces := Zipf(20_000, 20_000, 0)
	for _, k := range []int{1, 2, 4, 8} {
		loads, total := Loads(namespaces, k, Rendezvous), 0
		for _, load := range loads {
			total += load
			assert.InEpsilon(t, float64(len(namespaces))/float64(k), load, 0.06)
		}
		assert.Equal(t, len(namespaces), total, "each namespace has one owner")
	}
}

func TestExtrapolation(t *testing.T) {
	c := Constants{
		IssueCPU: 2, IssueRate: 200, SuccessionRate: 100, SuccessionAPI: 8, RestartEach: 0.5,
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

func TestASuccessionTakesAsLongAsTheLargestShardOrTheAPIServer(t *testing.T) {
	c := Constants{SuccessionCPU: 10, SuccessionAPI: 8}
	took, apiServer := c.SuccessionOf([]int{1000, 4000, 1000}, 4)
	assert.Equal(t, 40*time.Second, took)
	assert.False(t, apiServer, "12 s of four cores")
	took, apiServer = c.SuccessionOf([]int{2000, 2000, 2000, 2000}, 2)
	assert.Equal(t, 32*time.Second, took)
	assert.True(t, apiServer, "20 s of each signer, 64 s of two cores")
}

func TestAShareOfTheCertificatesMoves(t *testing.T) {
	namespaces := []Namespace{}
	for i := range 1000 {
		namespaces = append(namespaces, Namespace{fmt.Sprint("tenant-", i), 1})
	}
	moving := slices.IndexFunc(namespaces, func(ns Namespace) bool { return Rendezvous(ns.Name, 5) == 4 })
	namespaces[moving].Certificates = 9001
	m := Grow(namespaces, 4, Rendezvous)
	assert.InDelta(t, (m.Namespaces*1000+9000)/10_000, m.Certificates, 1e-9)
}

// The balance is limited by what cannot be divided.
func TestTheLargestNamespaceIsTheLeastThatAShardHas(t *testing.T) {
	namespaces := Zipf(1000, 10_000, 1)
	loads := Loads(namespaces, 16, Rendezvous)
	assert.GreaterOrEqual(t, loads[Rendezvous(namespaces[0].Name, 16)], namespaces[0].Certificates)
	assert.Greater(t, namespaces[0].Certificates, 10_000/16)
}
