package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// A server that is away causes resets, and is reached again when it is back.
func TestServerIsAway(t *testing.T) {
	svc := newService(t)
	svc.server.Store(uint32(listenAndClose(t)))
	w := svc.outside()
	for _, name := range outPorts {
		w.requireReset(name, "x", name)
		require.EqualValues(t, 1, w.of(name).counters.server.Load())
	}
	require.Contains(t, w.logs.String(), "cannot connect to the server: refused the connection")
	require.Contains(t, w.logs.String(), "check that the Service has port 443 and ready endpoints")
	svc.serve(svc.config(), echoTLS)
	for _, name := range outPorts {
		send(t, w.dial(name), "ping")
	}
}

// Of several addresses, the one that worked last is tried first.
func TestAddressesOfAService(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	first, second := netip.MustParseAddr("2001:db8::1"), serviceIP
	svc.answers(func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{first, second}, nil })
	dials := make(chan string, 10)
	w := svc.outside(func(c *Config) {
		dial := c.dial
		c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials <- address
			return dial(ctx, network, address) // only to the second
		}
	})
	send(t, w.dial(atOnce), "ping")
	send(t, w.dial(atOnce), "ping")
	close(dials)
	var all []string
	for d := range dials {
		all = append(all, d)
	}
	require.Equal(t, []string{"[2001:db8::1]:443", "192.0.2.10:443", "192.0.2.10:443"}, all)
}

// Answers that lead back into the pod are refused, and DNS that fails is an error only without an earlier answer.
func TestAnswersOfDNS(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Upstream = append(c.Upstream, netip.MustParseAddr("10.1.2.3")) })
	answer := func(address string) Resolver {
		return func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(address)}, nil
		}
	}
	fails := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	for i, resolve := range []Resolver{answer("127.1.0.1"), answer("10.1.2.3"), answer("::ffff:127.0.0.1"), fails} {
		svc.answers(resolve)
		w.requireReset(atOnce, "", "")
		require.EqualValues(t, i+1, w.of(atOnce).counters.dns.Load())
	}
	require.Contains(t, w.logs.String(), "DNS answered 127.1.0.1: the proxy would connect to itself")
	require.Contains(t, w.logs.String(), "host=api.shop.svc.cluster.local.")
	svc.answer.Store(nil)
	send(t, w.dial(atOnce), "ping")
	n := svc.lookups.Load()
	for _, name := range outPorts {
		send(t, w.dial(name), "ping")
	}
	require.Equal(t, n, svc.lookups.Load(), "the answer is kept, for all ports of the Service")
}

// Idle connections are closed, also those that have sent nothing.
func TestIdleOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	var passed atomic.Int64
	w := svc.outside(func(c *Config) { c.Clock = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) } })
	clients := []net.Conn{w.dial(waits), w.dial(atOnce), w.dial(waits)}
	for _, c := range clients[1:] {
		send(t, c, "ping")
	}
	w.eventually("accepted", func() bool { return w.conns.len() == 3 })
	passed.Store(int64(w.cfg.Limits.Idle))
	w.sweepOnce(false)
	for _, c := range clients {
		b, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Empty(t, b)
	}
}

// Outbound connections count like others, and those that are not established are closed for new ones.
func TestMaxConnectionsOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Limits.MaxConnections = 10 })
	var kept []net.Conn
	for range 9 {
		c := w.dial(atOnce)
		send(t, c, "ping")
		kept = append(kept, c)
	}
	oldest := w.dial(waits)
	w.eventually("accepted", func() bool { return w.conns.len() == 10 })
	c := w.dial(either)
	send(t, c, "ping")
	b, err := io.ReadAll(oldest)
	require.NoError(t, err)
	require.Empty(t, b)
	require.EqualValues(t, 1, w.of(waits).counters.evicted.Load())
	for _, c := range append(kept, c) {
		send(t, c, "ping")
	}
	w.requireReset(atOnce, "", "refused")
	require.EqualValues(t, 1, w.of(atOnce).counters.refused.Load())
}

// Clients outside that use up the proxy's connections do not keep the program from connecting to Services, nor the other
// way round.
func TestAQuarterIsKeptForEachDirection(t *testing.T) {
	const most, kept = 16, 4
	svc := newService(t)
	v := newVolume(t, svc.ca.issue(t))
	for _, flood := range []string{"in", "out", "silent in", "silent out"} {
		t.Run(flood, func(t *testing.T) {
			svc := &service{t: t, ca: svc.ca, bundle: svc.bundle}
			svc.serve(svc.config(), echoTLS)
			w := start(t, program(t, echo), svc.connects, func(c *Config) { c.CertDir, c.Limits.MaxConnections = v.dir, most })
			inbound := func() net.Conn { return tls.Client(w.dial(strict), clientConfig()) }
			outbound := func() net.Conn { return w.dial(atOnce) }
			flooding, other := inbound, outbound
			if strings.HasSuffix(flood, "out") {
				flooding, other = outbound, inbound
			}
			switch flood {
			case "silent in":
				for range 2 * most {
					w.dial(both)
				}
			case "silent out":
				for range 2 * most {
					w.dial(waits)
				}
			default:
				for range most - kept {
					send(t, flooding(), "ping")
				}
				name := map[string]string{"in": strict, "out": atOnce}[flood]
				w.requireReset(name, "", flood)
				require.EqualValues(t, 1, w.of(name).counters.refused.Load())
			}
			w.eventually("as many as it can have", func() bool { return w.conns.len() == most-kept })
			for range kept {
				send(t, other(), "ping")
			}
			require.Equal(t, most, w.conns.len())
		})
	}
}

// Of silent connections in both directions, one of the direction with more of them is closed.
func TestTheLargerDirectionMakesRoom(t *testing.T) {
	const most = 16
	svc := newService(t)
	v := newVolume(t, svc.ca.issue(t))
	w := start(t, program(t, echo), svc.connects, func(c *Config) { c.CertDir, c.Limits.MaxConnections = v.dir, most })
	for i, name := range []string{waits, both} {
		for range []int{most / 4, most * 3 / 4}[i] {
			w.dial(name)
		}
		w.eventually("accepted", func() bool { return w.conns.len() == []int{most / 4, most}[i] })
	}
	w.dial(waits)
	w.eventually("closed for it", func() bool { return w.of(both).counters.evicted.Load() == 1 })
	require.Zero(t, w.of(waits).counters.evicted.Load())
}

// A connection that is closed for another one, or at the end of the drain, waits neither for DNS nor for a server.
func TestClosedConnectionsStopWaiting(t *testing.T) {
	svc := newService(t)
	svc.answers(func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w := svc.outside(func(c *Config) { c.Limits.MaxConnections = 1 })
	first := w.dial(atOnce)
	w.eventually("a lookup", func() bool { return svc.lookups.Load() == 1 })
	w.dial(atOnce)
	_, err := io.ReadAll(first)
	require.NoError(t, err)
	begun := time.Now()
	w.stop()
	require.Less(t, time.Since(begun), lookupTimeout)
	require.Zero(t, w.of(atOnce).counters.dns.Load(), "no fault of DNS")

	svc.answer.Store(nil)
	reached := make(chan struct{}, 1)
	svc.raw(func(c *net.TCPConn) {
		reached <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	w = svc.outside(func(c *Config) { c.Limits.Handshake = time.Hour })
	w.dial(atOnce)
	<-reached
	w.stop()
	require.Zero(t, w.of(atOnce).counters.serverHandshake.Load(), "no fault of the server")
}

// After a stop, connections in progress continue, and new ones are refused.
func TestDrainOutbound(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside(func(c *Config) { c.Limits.Drain = patience })
	c := w.dial(atOnce)
	send(t, c, "ping")
	address := w.address(atOnce)
	stopped := make(chan struct{})
	go func() {
		w.stop()
		close(stopped)
	}()
	w.eventually("new connections are refused", func() bool {
		_, err := net.Dial("tcp", address)
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	send(t, c, "pong")
	require.NoError(t, c.Close())
	<-stopped
}

// An outbound port whose address is taken is an error that names it.
func TestAddressThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "0.0.0.0:0") // as a program does
	require.NoError(t, err)
	defer taken.Close()
	svc := newService(t)
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	cfg := Config{Clock: time.Now, Limits: proxy.DefaultLimits(), Log: discard}
	svc.connects(&cfg)
	cfg.Connects = []proxy.Connect{{Name: "api.shop.svc:8080", Local: netip.AddrPortFrom(netip.MustParseAddr("127.1.0.1"), port)}}
	err = New(cfg).Run(t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--connect api.shop.svc:8080: cannot listen on port")
}
