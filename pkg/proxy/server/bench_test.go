package server

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exchanges are requests on a kept connection, and on a new one.
var exchanges = []struct {
	name string
	size int
	kept bool
}{{"kept/100B", 100, true}, {"kept/16KiB", 16 << 10, true}, {"new", 1, false}}

// asker makes requests of a size that are echoed.
type asker struct {
	connect         func() io.ReadWriteCloser
	kept            io.ReadWriteCloser // nil: each request has a new connection
	request, answer []byte
}

func newAsker(b *testing.B, connect func() io.ReadWriteCloser, size int, kept bool) *asker {
	a := &asker{connect: connect, request: make([]byte, size), answer: make([]byte, size)}
	a.request[0] = 'x' // a kind that is known at once
	if kept {
		a.kept = connect()
		a.ask(b)
		b.Cleanup(func() { _ = a.kept.Close() })
	}
	return a
}

func (a *asker) ask(b *testing.B) {
	c := a.kept
	if c == nil {
		c = a.connect()
		defer c.Close()
	}
	_, err := c.Write(a.request)
	if err == nil {
		_, err = io.ReadFull(c, a.answer)
	}
	if err != nil { // testify would be a part of what is measured
		require.NoError(b, err)
	}
}

// BenchmarkInbound measures TLS clients of a program.
func BenchmarkInbound(b *testing.B) {
	w := start(b, program(b, echo))
	for _, e := range exchanges {
		b.Run(e.name, func(b *testing.B) {
			a := newAsker(b, func() io.ReadWriteCloser { return tls.Client(w.dial(strict), clientConfig()) }, e.size, e.kept)
			b.ReportAllocs()
			for b.Loop() {
				a.ask(b)
			}
		})
	}
}

// BenchmarkOutbound measures plaintext clients that reach the program through both halves of the proxy, as a ratio to
// TLS clients that reach it through the inbound half. All run in one process, and take turns.
func BenchmarkOutbound(b *testing.B) {
	svc := newService(b)
	v := newVolume(b, svc.ca.issue(b))
	w := start(b, program(b, echo), svc.connects, func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(w.at(strict).Port))
	sessions := clientConfig()
	sessions.ServerName, sessions.ClientSessionCache = host, tls.NewLRUClientSessionCache(1) // as the proxy has
	for _, e := range exchanges {
		b.Run(e.name, func(b *testing.B) {
			inbound := newAsker(b, func() io.ReadWriteCloser { return tls.Client(w.dial(strict), sessions) }, e.size, e.kept)
			both := newAsker(b, func() io.ReadWriteCloser { return w.dial(atOnce) }, e.size, e.kept)
			var inboundTook, bothTook time.Duration
			for b.Loop() {
				begun := time.Now()
				inbound.ask(b)
				between := time.Now()
				both.ask(b)
				inboundTook += between.Sub(begun)
				bothTook += time.Since(between)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(inboundTook.Nanoseconds())/float64(b.N), "inbound-ns/op")
			b.ReportMetric(float64(bothTook)/float64(inboundTook), "ratio")
		})
	}
}

// BenchmarkPaced measures what both halves of the proxy add to the time of a request, at pacedRate on kept connections: the
// same load without them takes turns. A request's time begins when it is due. All run in one process.
func BenchmarkPaced(b *testing.B) {
	const connections, pacedRate, round = 50, 2000, 2 * time.Second
	svc := newService(b)
	v := newVolume(b, svc.ca.issue(b))
	upstream := program(b, echo)
	w := start(b, upstream, svc.connects, func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(w.at(strict).Port))
	direct := func() io.ReadWriteCloser {
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(upstream)})
		require.NoError(b, err)
		return c
	}
	ways := [2][]*asker{}
	for range connections {
		ways[0] = append(ways[0], newAsker(b, direct, 100, true))
		ways[1] = append(ways[1], newAsker(b, func() io.ReadWriteCloser { return w.dial(atOnce) }, 100, true))
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i, askers := range ways {
			took[i] = append(took[i], paced(b, askers, pacedRate, round)...)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50", .5}, {"p99", .99}} {
		var at [2]time.Duration
		for i := range took {
			slices.Sort(took[i])
			at[i] = took[i][int(q.of*float64(len(took[i])))]
		}
		b.ReportMetric(float64(at[0].Microseconds()), q.name+"-direct-us")
		b.ReportMetric(float64((at[1] - at[0]).Microseconds()), q.name+"-added-us")
	}
}

// paced makes requests at a rate for some time, and returns how long each took since it was due.
func paced(b *testing.B, askers []*asker, rate int, round time.Duration) (took []time.Duration) {
	pause := time.Duration(len(askers)) * time.Second / time.Duration(rate)
	begun := time.Now()
	var lock sync.Mutex
	var all sync.WaitGroup
	for i, a := range askers {
		all.Go(func() {
			var own []time.Duration
			for due := begun.Add(pause * time.Duration(i) / time.Duration(len(askers))); due.Sub(begun) < round; due = due.Add(pause) {
				time.Sleep(time.Until(due))
				a.ask(b)
				own = append(own, time.Since(due))
			}
			lock.Lock()
			defer lock.Unlock()
			took = append(took, own...)
		})
	}
	all.Wait()
	return took
}

// BenchmarkGuarded measures new connections of clients with a certificate, beside those of a port that is not guarded.
func BenchmarkGuarded(b *testing.B) {
	g := startGuarded(b, program(b, echo), strict+"=shop/cart")
	for _, name := range []string{both, strict} {
		for how, with := range map[string]func(*tls.Config){"full": func(*tls.Config) {}, "resumed": resuming} {
			config := presenting(g.ca.issue(b, cart), with)
			b.Run(map[string]string{both: "unguarded/", strict: "guarded/"}[name]+how, func(b *testing.B) {
				a := newAsker(b, func() io.ReadWriteCloser { return tls.Client(g.dial(name), config) }, 1, false)
				for b.Loop() {
					a.ask(b)
				}
			})
		}
	}
}
