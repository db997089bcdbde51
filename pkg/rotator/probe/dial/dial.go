// Package dial requests a server's certificate: one TCP connection, STARTTLS in the given protocol,
// and one TLS handshake. It needs no cluster, so that the command-line tool and the rotator evaluate
// servers in the same way.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
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
	return Client{}.By(ctx, To(address), name, protocol, timeout)
}

// An Opener opens a connection, such as one through the API server.
type Opener func(context.Context) (net.Conn, error)

// To opens connections to an address.
func To(address string) Opener {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
}

// A Client is who dials. The zero Client shows no certificate.
type Client struct {
	// Certificate is shown to a server that demands one.
	Certificate *tls.Certificate
	// Proxied: a proxy of servingcert that may admit only some clients is at the port. The dial waits until it is seen whether
	// it admits this one (probe.Outcome.Judgement), and is no caller for a proxy that knows proxy.ProbeProtocol.
	Proxied bool
}

// By is Dial for the client, on connections that open opens.
func (c Client) By(ctx context.Context, open Opener, name string, protocol starttls.Protocol, timeout time.Duration) probe.Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcome := c.connect(ctx, open, name, protocol, timeout/2)
	if errors.Is(outcome.Err, starttls.ErrTLS) {
		outcome = c.connect(ctx, open, name, starttls.TLS, 0)
	}
	return outcome
}

func (c Client) visitor() pki.Visitor {
	v := pki.Visitor{Certificate: c.Certificate, Waits: c.Proxied}
	if c.Proxied {
		v.Protocol = proxy.ProbeProtocol
	}
	return v
}

// connect is By with the time limit of ctx. silence is the part of it left for TLS if the server
// should speak first and does not.
func (c Client) connect(ctx context.Context, open Opener, name string, protocol starttls.Protocol, silence time.Duration) probe.Outcome {
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
	seen, err := c.visitor().Observe(ctx, &bounded{conn, maxHandshake}, name)
	err = because(ctx, err)
	outcome := probe.HandshakeOutcome(seen.Proven, err)
	if outcome.Kind == probe.TLS {
		outcome.Handshake = probe.HandshakeOf(seen.ConnectionState())
		if unsaid == nil {
			protocol.End(seen.Conn)
		}
		if c.Proxied && err == nil {
			err = because(ctx, seen.Admitted())
		}
		_ = seen.Close() // sends close_notify, so that servers log no error
	}
	if c.Proxied {
		if outcome.Judgement = probe.JudgementOf(seen.Demanded, err); outcome.Judgement == "" {
			outcome.Unjudged = probe.Unreachable(err).Cause
		}
	}
	return outcome
}

// Plaintext sends a request without TLS (proxy.ProbeRequest) on a connection that open opens, and returns whether the port
// was seen to refuse it; if neither was seen, also why.
func Plaintext(ctx context.Context, open Opener, timeout time.Duration) (probe.Judgement, probe.Cause) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := open(ctx)
	if err != nil {
		return "", probe.Unreachable(err).Cause
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err = io.WriteString(conn, proxy.ProbeRequest)
	if err != nil {
		return "", probe.Unreachable(because(ctx, err)).Cause
	}
	answer := make([]byte, 0, len(proxy.NotTLS))
	for {
		n, err := conn.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		if judgement := probe.PlaintextJudgement(answer, proxy.NotTLS); judgement != "" {
			return judgement, ""
		}
		if err != nil {
			return "", probe.Unreachable(because(ctx, err)).Cause
		}
	}
}

// because returns the error of ctx if that has closed the connection, which crypto/tls does not
// always report.
func because(ctx context.Context, err error) error {
	if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
