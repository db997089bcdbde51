// Package dial asks a server for its certificate: one TCP connection and one TLS
// handshake. It needs nothing of Kubernetes, so that the command-line tool can
// judge a server exactly as the rotator does.
package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// maxHandshake is the most bytes that are read of a server: what the signer writes into a
// Secret has room in it. crypto/tls has limits of its own: 256 KiB for the message with the
// certificates, 64 KiB for others, 8192 bits for an RSA key.
const maxHandshake = pki.MaxCertificates + 16<<10

// errTooLong is what a server gets that sends more.
var errTooLong = fmt.Errorf("the TLS handshake is longer than %d bytes", maxHandshake)

// bounded is a connection of which no more is read than left.
type bounded struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Dial makes a TCP connection to address, HOST:PORT, and a TLS handshake that asks
// for name (SNI), and closes it, all within the timeout. It sends nothing else and
// verifies nothing: the caller judges the certificates.
func Dial(ctx context.Context, address, name string, timeout time.Duration) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return probe.Unreachable(err)
	}
	defer func() { _ = conn.Close() }()
	// The farewell of crypto/tls has a limit of its own, of 5 s.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var shown []*x509.Certificate
	client := tls.Client(&bounded{conn, maxHandshake}, &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, // what is asked is which certificate is served, not whether to trust it
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates
			return nil
		},
		MinVersion:       tls.VersionTLS10,
		CipherSuites:     allCipherSuites(),
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}, // no secret is sent: a short hello does
	})
	err = client.HandshakeContext(ctx)
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		err = ctx.Err() // what has closed the connection, which crypto/tls does not always notice first
	}
	outcome := probe.Judge(shown, err)
	if outcome.Kind == probe.TLS {
		_ = client.Close() // sends close_notify, so that servers log no error
	}
	return outcome
}

// allCipherSuites returns all cipher suites, so that a server that supports only
// old ones still shows its certificate.
func allCipherSuites() []uint16 {
	var ids []uint16
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, suite.ID)
	}
	return ids
}
