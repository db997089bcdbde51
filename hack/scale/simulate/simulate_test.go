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
