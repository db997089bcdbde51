package proxy_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

var beginnings = []struct {
	name      string
	bytes     string
	look      proxy.Kind
	described proxy.Kind
}{
	{"nothing", "", proxy.KindUndecided, proxy.KindSilent},
	{"ClientHello, TLS 1.0 in the record", "\x16\x03\x01\x02\x00\x01\x00\x01", proxy.KindTLS, proxy.KindOther},
	{"ClientHello, TLS 1.2 in the record", "\x16\x03\x03\x00\xc8\x01\x00\x00", proxy.KindTLS, proxy.KindOther},
	{"ClientHello, TLS 1.3 in the record", "\x16\x03\x04\x00\xc8\x01", proxy.KindTLS, proxy.KindOther},
	{"half of it", "\x16\x03\x03\x00\xc8", proxy.KindUndecided, proxy.KindOther},
	{"one byte of it", "\x16", proxy.KindUndecided, proxy.KindOther},
	{"ServerHello", "\x16\x03\x03\x00\xc8\x02\x00\x00", proxy.KindOther, proxy.KindOther},
	{"alert", "\x15\x03\x03\x00\x02\x02\x28", proxy.KindOther, proxy.KindOther},
	{"SSL 2 hello", "\x80\x2e\x01\x00\x02\x00\x15\x00", proxy.KindOther, proxy.KindOther},
	{"MongoDB, message of 22 bytes", "\x16\x00\x00\x00\x01\x00\x00\x00", proxy.KindOther, proxy.KindOther},
	{"MongoDB, message of 790 bytes, request 0x0101", "\x16\x03\x00\x00\x01\x01\x00\x00", proxy.KindOther, proxy.KindOther},
	{"PostgreSQL, SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", proxy.KindSSL, proxy.KindOther},
	{"PostgreSQL, GSSENCRequest", "\x00\x00\x00\x08\x04\xd2\x16\x30", proxy.KindGSS, proxy.KindOther},
	{"PostgreSQL, half of a request", "\x00\x00\x00\x08\x04", proxy.KindUndecided, proxy.KindOther},
	{"PostgreSQL, startup", "\x00\x00\x00\x54\x00\x03\x00\x00", proxy.KindOther, proxy.KindPostgres},
	{"PostgreSQL, startup of 3.2", "\x00\x00\x00\x54\x00\x03\x00\x02", proxy.KindOther, proxy.KindPostgres},
	{"PostgreSQL, cancel", "\x00\x00\x00\x10\x04\xd2\x16\x2e", proxy.KindOther, proxy.KindPostgres},
	{"Kafka, ApiVersions", "\x00\x00\x00\x2b\x00\x12\x00\x03", proxy.KindOther, proxy.KindOther},
	{"Kafka, a message of 8 bytes", "\x00\x00\x00\x08\x00\x12\x00\x00", proxy.KindOther, proxy.KindOther},
	{"Redis", "*1\r\n$4\r\nPING\r\n", proxy.KindOther, proxy.KindOther},
	{"AMQP", "AMQP\x00\x00\x09\x01", proxy.KindOther, proxy.KindOther},
	{"HTTP", "GET / HTTP/1.1\r\n", proxy.KindOther, proxy.KindHTTP},
	{"HTTP, one byte", "G", proxy.KindOther, proxy.KindHTTP},
	{"HTTP, POST, one byte", "P", proxy.KindOther, proxy.KindHTTP},
	{"HTTP, PROPFIND", "PROPFIND", proxy.KindOther, proxy.KindOther},
	{"HTTP, OPTIONS", "OPTIONS * HTTP/1.1", proxy.KindOther, proxy.KindHTTP},
	{"h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", proxy.KindOther, proxy.KindH2},
	{"PROXY", "PROXY TCP4 ", proxy.KindOther, proxy.KindOther},
	{"STARTTLS", "EHLO web\r\n", proxy.KindOther, proxy.KindOther},
}

func TestLook(t *testing.T) {
	for _, b := range beginnings {
		assert.Equal(t, b.look, proxy.Look([]byte(b.bytes)), b.name)
		assert.Equal(t, b.described, proxy.Describe([]byte(b.bytes)), b.name)
	}
}

// MongoDB's first message is plaintext, whatever its length below 64 KiB and its number.
func TestMongoDBIsNotTLS(t *testing.T) {
	for length := uint32(16); length < 1<<16; length++ {
		message := binary.LittleEndian.AppendUint32(nil, length)
		for _, id := range []uint32{0, 1, 0x0100, 0x01ff, 0x01010101} {
			require.Equal(t, proxy.KindOther, proxy.Look(binary.LittleEndian.AppendUint32(message, id)), "%d, %x", length, id)
		}
	}
}

// The first bytes of a real client are recognized as TLS.
func TestClientsOfGoAreTLS(t *testing.T) {
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		client, server := net.Pipe()
		go func() {
			_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}).Handshake() //nolint:gosec // nothing is verified
		}()
		first := make([]byte, proxy.FirstBytes)
		_, err := server.Read(first)
		require.NoError(t, err)
		require.NoError(t, server.Close())
		assert.Equal(t, proxy.KindTLS, proxy.Look(first))
	}
}

// FirstBytes bytes are enough for a decision, and further bytes never change it.
func FuzzLook(f *testing.F) {
	for _, b := range beginnings {
		f.Add([]byte(b.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all := proxy.Look(b)
		if len(b) >= proxy.FirstBytes && all == proxy.KindUndecided {
			t.Fatalf("%x is undecided", b)
		}
		decided := proxy.KindUndecided
		for i := range len(b) + 1 {
			kind := proxy.Look(b[:i])
			if decided != proxy.KindUndecided && kind != decided {
				t.Fatalf("%x is %q, and with more bytes %q", b[:i], decided, kind)
			}
			decided = kind
		}
		if all == proxy.KindTLS && (b[0] != 0x16 || b[1] != 3 || b[5] != 1) {
			t.Fatalf("%x is TLS", b)
		}
		if all == proxy.KindSSL && !bytes.HasPrefix(b, []byte{0, 0, 0, 8, 4, 210, 22, 47}) {
			t.Fatalf("%x is an SSLRequest", b)
		}
		if kind := proxy.Describe(b); kind == proxy.KindTLS || kind == proxy.KindUndecided || len(b) > 0 && kind == proxy.KindSilent {
			t.Fatalf("%x is described as %q", b, kind)
		}
	})
}
