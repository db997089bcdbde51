package proxy_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

const hello = "\x16\x03\x01\x06\x00\x01\x00\x05\xfc\x03\x03"

var ways = []struct {
	name  string
	bytes string
	way   proxy.Way
}{
	{"nothing", "", proxy.WayUndecided},
	{"ClientHello", hello, proxy.WayThrough},
	{"ClientHello of TLS 1.0", "\x16\x03\x01\x00\x64\x01\x00\x00\x60\x03\x01", proxy.WayThrough},
	{"ClientHello in several records", "\x16\x03\x01\x00\x40\x01\x00\x05\xfc\x03\x03", proxy.WayThrough},
	{"all but a byte of it", hello[:10], proxy.WayUndecided},
	{"one byte of it", hello[:1], proxy.WayUndecided},
	{"ServerHello", "\x16\x03\x03\x00\x64\x02\x00\x00\x60\x03\x03", proxy.WayTLS},
	{"record of SSL 3", "\x16\x03\x00\x00\x64\x01\x00\x00\x60\x03\x00", proxy.WayTLS},
	{"version of SSL 3", "\x16\x03\x01\x00\x64\x01\x00\x00\x60\x03\x00", proxy.WayTLS},
	{"version of nothing", "\x16\x03\x01\x00\x64\x01\x00\x00\x60\x04\x03", proxy.WayTLS},
	{"more in the record than the message", "\x16\x03\x01\x00\x65\x01\x00\x00\x60\x03\x03", proxy.WayTLS},
	{"message of 64 KiB", "\x16\x03\x01\x40\x00\x01\x01\x00\x00\x03\x03", proxy.WayTLS},
	{"message that is too short", "\x16\x03\x01\x00\x2a\x01\x00\x00\x26\x03\x03", proxy.WayTLS},
	{"record that is too short", "\x16\x03\x01\x00\x06\x01\x00\x00\x60\x03\x03", proxy.WayTLS},
	{"MongoDB, message of 790 bytes, request 0x0101", "\x16\x03\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00", proxy.WayTLS},
	{"MongoDB, message of 66 KiB, request 0x0100, OP_MSG", "\x16\x03\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xdd\x07", proxy.WayTLS},
	{"PostgreSQL, SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", proxy.WayTLS},
	{"PostgreSQL, GSSENCRequest", "\x00\x00\x00\x08\x04\xd2\x16\x30", proxy.WayTLS},
	{"PostgreSQL, startup", "\x00\x00\x00\x54\x00\x03\x00\x00", proxy.WayTLS},
	{"HTTP", "GET / HTTP/1.1\r\n", proxy.WayTLS},
	{"HTTP, one byte", "G", proxy.WayTLS},
	{"HTTP, POST, one byte", "P", proxy.WayUndecided},
	{"HTTP, POST", "PO", proxy.WayTLS},
	{"HTTP, PROPFIND", "PROPFIND", proxy.WayTLS},
	{"h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", proxy.WayH2},
	{"half of h2", "PRI * H", proxy.WayUndecided},
	{"a method PRI", "PRI /x H", proxy.WayTLS},
	{"Redis", "*1\r\n$4\r\nPING\r\n", proxy.WayTLS},
}

func TestChooseWay(t *testing.T) {
	for _, w := range ways {
		assert.Equal(t, w.way, proxy.ChooseWay([]byte(w.bytes)), w.name)
	}
}

// The first bytes of a real client are passed through.
func TestClientsOfGoArePassedThrough(t *testing.T) {
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		client, server := net.Pipe()
		go func() {
			_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}).Handshake() //nolint:gosec // nothing is verified
		}()
		first := make([]byte, proxy.WayBytes)
		_, err := server.Read(first)
		require.NoError(t, err)
		require.NoError(t, server.Close())
		assert.Equal(t, proxy.WayThrough, proxy.ChooseWay(first))
	}
}

// WayBytes bytes are enough for a decision, further bytes never change it, and only a ClientHello is passed through.
func FuzzChooseWay(f *testing.F) {
	for _, w := range ways {
		f.Add([]byte(w.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all := proxy.ChooseWay(b)
		if len(b) >= proxy.WayBytes && all == proxy.WayUndecided {
			t.Fatalf("%x is undecided", b)
		}
		decided := proxy.WayUndecided
		for i := range len(b) + 1 {
			way := proxy.ChooseWay(b[:i])
			if decided != proxy.WayUndecided && way != decided {
				t.Fatalf("%x is %d, and with more bytes %d", b[:i], decided, way)
			}
			decided = way
		}
		if all == proxy.WayThrough && (proxy.Look(b) != proxy.KindTLS || b[9] != 3) {
			t.Fatalf("%x is passed through", b)
		}
		if all == proxy.WayH2 && !bytes.HasPrefix(b, []byte("PRI * HT")) {
			t.Fatalf("%x is HTTP/2", b)
		}
	})
}
