package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/bounded"
)

// Clients of every kind connect, from outside and through both halves of the proxy, while the certificate is renewed. All data comes back, however it is split
// and however connections end, and no connection leaks.
func TestLoad(t *testing.T) {
	svc := newService(t)
	pairs := []pair{svc.ca.issue(t), svc.ca.issue(t)}
	v := newVolume(t, pairs[1])
	w := start(t, program(t, echo), svc.connects, func(c *Config) { c.CertDir = v.dir })
	svc.server.Store(uint32(w.at(strict).Port))
	addresses := map[string]string{}
	for _, p := range w.ports {
		addresses[p.Name] = w.address(p.Name)
	}
	var group sync.WaitGroup
	var stop atomic.Bool
	var failures sync.Map
	var done atomic.Int64
	for i := range 16 {
		group.Go(func() {
			source := rand.NewChaCha8([32]byte{byte(i)})
			for !stop.Load() {
				if err := exchange(source, addresses); err != nil {
					failures.Store(err.Error(), true)
				}
				done.Add(1)
			}
		})
	}
	looks := uint64(2)
	if bounded.Long {
		looks = 20
	}
	for i := range looks {
		v.swap(t, pairs[i%2])
		w.eventually("the new pair is loaded", func() bool { return w.certs.reloads.Load() == i+1 })
	}
	stop.Store(true)
	group.Wait()
	failures.Range(func(failure, _ any) bool {
		t.Error(failure)
		return true
	})
	t.Logf("%d connections, %d renewals", done.Load(), w.certs.reloads.Load())
	w.eventually("all have ended", func() bool { return w.conns.len() == 0 })
	require.Zero(t, largeInUse.Load())
}

// exchange makes one connection, sends bytes in pieces, reads them back, and ends it in one of four ways.
func exchange(source *rand.ChaCha8, addresses map[string]string) error {
	random := rand.New(source) //nolint:gosec // a simulation
	kind := []string{"TLS, strict", "TLS, both", "plaintext", atOnce, waits, either}[random.IntN(6)]
	withTLS, address := false, addresses[kind]
	switch kind {
	case "TLS, strict":
		withTLS, address = true, addresses[strict]
	case "TLS, both":
		withTLS, address = true, addresses[both]
	case "plaintext":
		address = addresses[both]
	}
	raw, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(patience))
	c := raw.(halfCloser)
	if withTLS {
		c = tls.Client(raw, clientConfig())
	}
	data := make([]byte, random.IntN(1<<(1+random.IntN(19))))
	_, _ = source.Read(data)
	if !withTLS {
		data = append([]byte("x"), data...)
	}
	end := random.IntN(4)
	var sent error
	var writing sync.WaitGroup
	writing.Go(func() {
		for rest := data; len(rest) > 0 && sent == nil; {
			n := min(len(rest), 1+len(rest)/3)
			_, sent = c.Write(rest[:n])
			rest = rest[n:]
		}
		if end == 0 && sent == nil {
			if len(data) == 0 && withTLS {
				sent = c.(*tls.Conn).Handshake()
			}
			sent = errors.Join(sent, c.CloseWrite())
		}
	})
	var got []byte
	if end == 0 { // the client ends its side first
		got, err = io.ReadAll(c)
	} else {
		got = make([]byte, len(data))
		_, err = io.ReadFull(c, got)
	}
	writing.Wait()
	if err = errors.Join(err, sent); err == nil && !bytes.Equal(got, data) {
		err = fmt.Errorf("got %d bytes, sent %d, and they differ", len(got), len(data))
	}
	if end == 1 {
		_ = raw.(*net.TCPConn).SetLinger(0)
	}
	if err != nil {
		return fmt.Errorf("%s, end %d, %d bytes: %w", kind, end, len(data), err)
	}
	return nil
}
