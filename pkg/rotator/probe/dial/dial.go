// Package dial requests a server's certificate: one TCP connection, STARTTLS in the given protocol,
// and one TLS handshake. It needs no cluster, so that the command-line tool and the rotator evaluate
// servers in the same way.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// maxHandshake is the maximum number of bytes that are read from a server. All data that the signer
// writes into a Secret fits. crypto/tls has its own limits: 256 KiB for the message with the
// certificates, 64 KiB for others, 8192 bits for an RSA key.
const maxHandshake = pki.MaxCertificates + 16<<10

// errTooLong is the error if a server sends more.
var errTooLong = fmt.Errorf("the TLS handshake is longer than %d bytes", maxHandshake)

// bounded is a connection from which at most left bytes are read.
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

// Dial connects to address, HOST:PORT, sends the STARTTLS command of the protocol, makes a TLS
// handshake with the server name (SNI), and closes the connection, all within the timeout. It sends
// nothing else, except a MySQL login that fails (starttls.Protocol.End). It verifies nothing: the
// caller evaluates the certificates.
//
// The protocol may be a guess. If the server answers it in TLS, or closes the connection, a second
// connection is made. A server that should speak first and does not is assumed to be a TLS server.
func Dial(ctx context.Context, address, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
	return By(ctx, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}, name, protocol, timeout)
}

// By is Dial on a connection that open opens, such as one through the API server.
func By(ctx context.Context, open func(context.Context) (net.Conn, error), name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome := connect(ctx, open, name, protocol, timeout/2)
	if errors.Is(outcome.Err, starttls.ErrTLS) {
		outcome = connect(ctx, open, name, starttls.TLS, 0)
	}
	return outcome
}

// connect is Dial with the time limit of ctx. silence is the part of it left for TLS if the server
// should speak first and does not.
func connect(ctx context.Context, open func(context.Context) (net.Conn, error), name string, protocol starttls.Protocol, silence time.Duration) probe.Outcome {
	conn, err := open(ctx)
	if err != nil {
		return probe.Unreachable(err)
	}
	defer func() { _ = conn.Close() }()
	// The close_notify of crypto/tls has its own limit, of 5 s.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	deadline, _ := ctx.Deadline()
	unsaid := protocol.Begin(conn, name, deadline.Add(-silence), deadline)
	if unsaid != nil && !errors.Is(unsaid, starttls.ErrSilent) {
		return probe.StartTLSOutcome(because(ctx, unsaid))
	}
	client, proven, err := pki.Observe(ctx, &bounded{conn, maxHandshake}, name)
	err = because(ctx, err)
	outcome := probe.HandshakeOutcome(proven, err)
	if outcome.Kind == probe.TLS {
		outcome.Handshake = probe.HandshakeOf(client.ConnectionState())
		if unsaid == nil {
			protocol.End(client)
		}
		_ = client.Close() // sends close_notify, so that servers log no error
	}
	return outcome
}

// because returns the error of ctx if that has closed the connection, which crypto/tls does not
// always report.
func because(ctx context.Context, err error) error {
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
