package server

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// holding is a client's connection that waits before the last records of its second flight.
type holding struct {
	net.Conn
	flight, last int
	wait         func()
}

func (c *holding) Write(b []byte) (int, error) {
	if c.flight++; c.flight != 2 {
		return c.Conn.Write(b)
	}
	var ends []int // of records
	for end := 0; end < len(b); ends = append(ends, end) {
		end += 5 + int(binary.BigEndian.Uint16(b[end+3:]))
	}
	held := ends[len(ends)-1-c.last]
	if _, err := c.Conn.Write(b[:held]); err != nil {
		return 0, err
	}
	c.wait()
	_, err := c.Conn.Write(b[held:])
	return len(b), err
}

// The list changes after the client's certificate was judged, and before the client has proven that it has the key.
func TestTheListChangesDuringAHandshake(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=any")
	for _, c := range []struct {
		from, to string
		cert     *tls.Certificate
	}{
		{strict + "=shop/*", strict + "=shop/other", g.ca.issue(t, cart)},
		{"", strict + "=any", nil}, // it is not asked for a certificate
	} {
		g.list(c.from)
		raw := g.dial(strict)
		last := 2 // CertificateVerify and Finished
		if c.cert == nil {
			last = 1
		}
		held := false
		client := tls.Client(&holding{Conn: raw, last: last, wait: func() {
			held = true
			g.eventually("the certificate was read", func() bool { return g.hasRead(raw) })
			g.list(c.to)
		}}, presenting(c.cert))
		require.NoError(t, client.Handshake())
		require.True(t, held)
		_, wrote := io.WriteString(client, "ping") // the kernel reports a reset only once
		b, err := io.ReadAll(client)
		require.ErrorIs(t, errors.Join(wrote, err), syscall.ECONNRESET)
		require.Empty(t, b)
	}
	g.refused(strict, proxy.NotListed, 1)
	g.refused(strict, proxy.NoCertificate, 1)
	require.Zero(t, g.serving())
}

// While the list changes all the time, connections come and go. Those of a client that is always listed are not touched,
// and those of one that is not listed any more do not stay.
func TestTheListChangesUnderLoad(t *testing.T) {
	g := startGuarded(t, program(t, echo), strict+"=any")
	parse := func(text string) *proxy.Admission {
		a, err := proxy.ParseAdmission(text)
		require.NoError(t, err)
		return a
	}
	with, without := parse(strict+"=any"), parse(strict+"=shop/cart")
	always, sometimes := g.ca.issue(t, cart), g.ca.issue(t, other)
	var kept []*tls.Conn
	for range 10 {
		kept = append(kept, g.admitted(g.as(always, strict)))
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	var served atomic.Int64
	for range 4 {
		group.Go(func() {
			for !stop.Load() {
				c, err := tls.Dial("tcp", g.address(strict), presenting(sometimes))
				if err != nil {
					continue // refused, in TLS 1.2 or before the first read
				}
				if _, err = io.WriteString(c, "x"); err == nil {
					if _, err = io.ReadFull(c, make([]byte, 1)); err == nil {
						served.Add(1)
						_, _ = io.Copy(io.Discard, c) // until it ends
					}
				}
				_ = c.Close()
			}
		})
	}
	for i := range 200 {
		list := with
		if i%2 == 1 {
			list = without
		}
		g.admission.current.Store(list)
		g.enforce()
		for _, c := range kept[:1+i%len(kept)] {
			send(t, c, "ping")
		}
	}
	g.eventually("those that were admitted have ended", func() bool {
		for _, c := range g.conns.all() {
			if who := c.who.Load(); who != nil && who.ID.ServiceAccount == "other" && !c.killed.Load() {
				return false
			}
		}
		return true
	})
	stop.Store(true)
	group.Wait()
	g.eventually("only those that are listed are left", func() bool { return g.conns.len() == len(kept) })
	for _, c := range kept {
		send(t, c, "ping")
	}
	require.Positive(t, served.Load())
	t.Logf("%d connections were admitted, %d refused or ended", served.Load(), g.refusals(strict, proxy.NotListed))
	require.LessOrEqual(t, uint64(served.Load()), g.callerOf(other).Connections)
}
