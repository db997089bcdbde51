// Package dial asks a server for its certificate: one TCP connection, what the protocol says
// before TLS, and one TLS handshake. It needs nothing of Kubernetes, so that the command-line tool can
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
	"github.com/servingcert/servingcert/pkg/starttls"
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

// Dial makes a TCP connection to address, HOST:PORT, says what comes before TLS in the
// protocol, makes a TLS handshake that asks for name (SNI), and closes it, all within the
// timeout. It sends nothing else, but for a login in MySQL that fails (starttls.Protocol.End), and
// verifies nothing: the caller judges the certificates.
//
// The protocol may be a guess. To a server that answers it in TLS, or closes the connection, another
// one is made, and one that should speak first and does not is taken for a TLS server.
func Dial(ctx context.Context, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome := connect(ctx, address, name, protocol, timeout/2)
	if errors.Is(outcome.Err, starttls.ErrTLS) {
		outcome = connect(ctx, address, name, starttls.TLS, 0)
	}
	return outcome
}

// connect is Dial with the time limit of ctx. silence is how much of it is left for TLS if the server
// should speak first and does not.
func connect(ctx context.Context, address, name string, protocol starttls.Protocol, silence time.Duration) probe.Outcome {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return probe.Unreachable(err)
	}
	defer func() { _ = conn.Close() }()
	// The farewell of crypto/tls has a limit of its own, of 5 s.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	deadline, _ := ctx.Deadline()
	unsaid := protocol.Begin(conn, name, deadline.Add(-silence), deadline)
	if unsaid != nil && !errors.Is(unsaid, starttls.ErrSilent) {
		return probe.JudgeWords(because(ctx, unsaid))
	}
	var shown []*x509.Certificate
	client := tls.Client(&bounded{conn, maxHandshake}, &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, // what is asked is which certificate is served, not whether to trust it
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates
			return nil
		},
		MinVersion:   tls.VersionTLS10,
		CipherSuites: allCipherSuites(),
		// All groups of crypto/tls, which are its default: a server may offer post-quantum ones only.
	})
	outcome := probe.Judge(shown, because(ctx, client.HandshakeContext(ctx)))
	if outcome.Kind == probe.TLS {
		outcome.Handshake = probe.HandshakeOf(client.ConnectionState())
		if unsaid == nil {
			protocol.End(client)
		}
		_ = client.Close() // sends close_notify, so that servers log no error
	}
	return outcome
}

// because returns the end of ctx if that is what has closed the connection, which crypto/tls does
// not always notice first.
func because(ctx context.Context, err error) error {
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
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
