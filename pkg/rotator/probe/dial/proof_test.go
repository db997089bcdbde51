package dial

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// cut is a server's connection that passes records TLS records and then ends, without record number without.
type cut struct {
	net.Conn
	records, without, passed int
	end                      func(net.Conn)
}

// Write implements net.Conn. crypto/tls writes whole records, each with one message of the handshake.
func (c *cut) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if c.passed == c.records {
			c.end(c.Conn)
			return written, nil
		}
		record := p[:5+int(binary.BigEndian.Uint16(p[3:5]))]
		p = p[len(record):]
		if c.passed++; c.passed == c.without {
			continue
		}
		if _, err := c.Conn.Write(record); err != nil {
			return 0, err
		}
	}
	return written, nil
}

// TestDialRequiresTheProofOfTheKey: certificates are public. A server that stops before it has proved that it has
// the key of the one that it shows does not serve it.
func TestDialRequiresTheProofOfTheKey(t *testing.T) {
	pair := rotatortest.NewCA(t, 1, time.Now()).Issue(t, time.Now(), "web.shop.svc")
	dial := func(t *testing.T, cfg *tls.Config, c cut, timeout time.Duration) probe.Outcome {
		at := rotatortest.Accept(t, "127.0.0.1", func(conn net.Conn) {
			c.Conn = conn
			rotatortest.Handshakes(cfg)(&c)
			_, _ = io.Copy(io.Discard, conn)
		})
		return Dial(t.Context(), at.String(), "web.shop.svc", "", timeout)
	}
	for name, tt := range map[string]struct {
		version uint16
		auth    tls.ClientAuthType
		without int
		proof   int // number of records after which the server is known to have the key, and to demand a certificate
		last    int // number of records of the server's first flight
	}{
		// ServerHello, Certificate, ServerKeyExchange, ServerHelloDone
		"TLS 1.2": {tls.VersionTLS12, tls.NoClientCert, 0, 5, 4},
		// ServerHello, Certificate, ServerKeyExchange, CertificateRequest, ServerHelloDone
		"TLS 1.2, a client certificate":               {tls.VersionTLS12, tls.RequireAnyClientCert, 0, 4, 5},
		"TLS 1.2, a client certificate, no signature": {tls.VersionTLS12, tls.RequireAnyClientCert, 3, 6, 5},
		"TLS 1.0, a client certificate, no signature": {tls.VersionTLS10, tls.RequireAnyClientCert, 3, 6, 5},
		// ServerHello, ChangeCipherSpec, EncryptedExtensions, Certificate, CertificateVerify, Finished
		"TLS 1.3": {tls.VersionTLS13, tls.NoClientCert, 0, 6, 5},
		// the same with CertificateRequest
		"TLS 1.3, a client certificate":               {tls.VersionTLS13, tls.RequireAnyClientCert, 0, 7, 7},
		"TLS 1.3, a client certificate, no signature": {tls.VersionTLS13, tls.RequireAnyClientCert, 6, 8, 7},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tt.version, MaxVersion: tt.version, ClientAuth: tt.auth}
			ends := map[string]func(net.Conn){
				"closes": func(c net.Conn) { _ = c.Close() },
				"resets": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() },
				"alert": func(c net.Conn) {
					_, _ = c.Write([]byte{21, 3, byte(min(tt.version, tls.VersionTLS12)), 0, 2, 2, 40})
					_ = c.Close()
				}, // handshake_failure
				"silent": func(net.Conn) {},
			}
			for records := range tt.last + 1 {
				for how, end := range ends {
					c := cut{records: records, without: tt.without, end: end}
					if records < tt.proof {
						got := dial(t, cfg, c, 100*time.Millisecond)
						assert.Equal(t, probe.NoAnswer, got.Kind, "%s after %d records", how, records)
						require.Error(t, got.Err)
						assert.Empty(t, got.Chain)
					} else if how == "closes" || how == "alert" {
						got := dial(t, cfg, c, long)
						assert.Equal(t, probe.TLS, got.Kind, "%s after %d records: %v", how, records, got.Err)
						require.NotEmpty(t, got.Chain)
						assert.Equal(t, pair.Leaf.Raw, got.Chain[0].Raw)
					}
				}
			}
		})
	}
}

// TestRSAKeyExchange: its proof of the key is that the server ends the handshake, which it does not if it demands a
// client certificate.
func TestRSAKeyExchange(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	for auth, want := range map[tls.ClientAuthType]probe.Kind{tls.NoClientCert: probe.TLS, tls.RequestClientCert: probe.TLS, tls.RequireAnyClientCert: probe.NoAnswer} {
		at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(&tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			MaxVersion:   tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}, ClientAuth: auth,
		}))
		assert.Equal(t, want, Dial(t.Context(), at.String(), "web.shop.svc", "", long).Kind, fmt.Sprint(auth))
	}
}
