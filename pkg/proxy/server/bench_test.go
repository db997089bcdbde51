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
	"golang.org/x/sys/unix"
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

// bothHalves runs the proxy of a server, in front of a program, which admits one client, and the proxy of that client.
func bothHalves(b *testing.B, upstream uint16) (client *world, server *guarded, identity *tls.Certificate) {
	svc := newService(b)
	v := newVolume(b, svc.ca.issue(b))
	server = startGuarded(b, upstream, strict+"=shop/cart", func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(server.at(strict).Port))
	identity = server.ca.issue(b, cart)
	client, _ = svc.identified(identity)
	return client, server, identity
}

// BenchmarkOutbound measures plaintext clients that reach the program through both halves of the proxy, with an identity,
// as a ratio to TLS clients with that identity that reach it through the inbound half: of the requests that each makes in a
// second, and in a second of the processor, which other work on the machine does not change. Sessions are resumed. All run in
// one process, and take turns.
func BenchmarkOutbound(b *testing.B) {
	client, server, identity := bothHalves(b, program(b, echo))
	sessions := presenting(identity, resuming) // as the proxy
	for _, e := range exchanges {
		b.Run(e.name, func(b *testing.B) {
			inbound := newAsker(b, func() io.ReadWriteCloser { return tls.Client(server.dial(strict), sessions) }, e.size, e.kept)
			both := newAsker(b, func() io.ReadWriteCloser { return client.dial(atOnce) }, e.size, e.kept)
			var took, used [2]time.Duration // of inbound, and of both halves
			for b.Loop() {
				for i, a := range []*asker{inbound, both} {
					begun, before := time.Now(), processorTime(b)
					a.ask(b)
					took[i] += time.Since(begun)
					used[i] += processorTime(b) - before
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "inbound-ns/op")
			b.ReportMetric(float64(took[0])/float64(took[1]), "of-inbound")
			b.ReportMetric(float64(used[0])/float64(used[1]), "of-inbound-by-cpu")
		})
	}
}

// processorTime returns the time that the process has used on processors.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		require.NoError(b, err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPaced measures what both halves of the proxy, with an identity, add to the time of a request, at pacedRate on
// kept connections: the same load without them takes turns. A request's time begins when it is due. All run in one process.
func BenchmarkPaced(b *testing.B) {
	const connections, pacedRate, round = 50, 2000, 2 * time.Second
	upstream := program(b, echo)
	client, _, _ := bothHalves(b, upstream)
	direct := func() io.ReadWriteCloser {
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(upstream)})
		require.NoError(b, err)
		return c
	}
	ways := [2][]*asker{}
	for range connections {
		ways[0] = append(ways[0], newAsker(b, direct, 100, true))
		ways[1] = append(ways[1], newAsker(b, func() io.ReadWriteCloser { return client.dial(atOnce) }, 100, true))
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
