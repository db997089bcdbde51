// Package simulate computes what cannot be measured in an hour: a month of renewals, and what
// a large cluster needs.
package simulate

import (
	"crypto/x509"
	"encoding/binary"
	"math"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// day is 24 hours; a month has 30 of them.
const (
	day   = 24 * time.Hour
	month = 30 * day
)

// Pattern says when certificates are made, and what happens to all of them.
type Pattern struct {
	Name string
	// Created is when the i-th of n certificates is asked for, after the beginning.
	Created func(i, n int) time.Duration
	// Succession is when a new CA begins to sign; 0: there is none.
	Succession time.Duration
}

// Patterns are those of the page on scale.
func Patterns() []Pattern {
	atOnce := func(int, int) time.Duration { return 0 }
	over := func(d time.Duration) func(i, n int) time.Duration {
		return func(i, n int) time.Duration { return time.Duration(float64(d) * float64(i) / float64(n)) }
	}
	return []Pattern{
		{"all created at once", atOnce, 0},
		{"all deployed in eight hours of one day", over(8 * time.Hour), 0},
		{"as many created every minute of a month", over(month), 0},
		{"all created at once, succession of the CA on day 15", atOnce, 15 * day},
	}
}

// Load is how many certificates are issued in each minute.
type Load struct {
	Created  []int // for the first time
	Replaced []int // by a new CA
	Renewed  []int // because their time has come
}

// Simulate issues n certificates of a lifetime and renews each at the time that its bytes
// say, as the signer does, until the end.
func Simulate(p Pattern, n int, lifetime, end time.Duration) Load {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	minutes := int(end / time.Minute)
	load := Load{make([]int, minutes), make([]int, minutes), make([]int, minutes)}
	count := func(in []int, at time.Time) { in[int(at.Sub(begin)/time.Minute)]++ }
	window := pki.Window{From: begin.Add(p.Succession), Until: begin.Add(p.Succession + ca.DefaultReissue)}
	for i := range n {
		now, why := begin.Add(p.Created(i, n)), load.Created
		replaced := p.Succession == 0 || now.After(window.From)
		for issued := 0; now.Before(begin.Add(end)); issued++ {
			count(why, now)
			cert := certificate(i, issued, now, lifetime)
			next := pki.RenewAt(cert)
			why = load.Renewed
			if at := window.At(cert.Raw); !replaced && at.Before(next) {
				next, why, replaced = at, load.Replaced, true
			}
			now = next
		}
	}
	return load
}

// certificate is a certificate as far as the time of its renewal depends on it: its validity,
// and bytes that no other has.
func certificate(i, issued int, now time.Time, lifetime time.Duration) *x509.Certificate {
	raw := binary.BigEndian.AppendUint64(nil, uint64(i))
	raw = binary.BigEndian.AppendUint64(raw, uint64(issued))
	return &x509.Certificate{Raw: raw, NotBefore: pki.NotBefore(now), NotAfter: now.Add(lifetime)}
}

// Peak is how a load is spread.
type Peak struct {
	Total   int
	Mean    float64 // a minute
	Busiest int     // the busiest minute
	Hour    float64 // a minute in the busiest hour
}

// PeakOf looks at some minutes of a load.
func PeakOf(minutes []int) Peak {
	var p Peak
	hour := 0
	for i, n := range minutes {
		p.Total += n
		p.Busiest = max(p.Busiest, n)
		if hour += n; i >= 60 {
			hour -= minutes[i-60]
		}
		p.Hour = math.Max(p.Hour, float64(hour)/60)
	}
	p.Mean = float64(p.Total) / float64(len(minutes))
	return p
}

// OverMean is the busiest minute over the mean.
func (p Peak) OverMean() float64 { return float64(p.Busiest) / p.Mean }

// defaultLifetime is that of a certificate whose Service asks for nothing else.
func defaultLifetime() time.Duration { return api.DefaultLimits().DefaultDuration }
