package rotator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// shown is what a port showed of itself.
type shown struct {
	kind  answerKind
	chain []*x509.Certificate // of answeredTLS; the leaf is the first
	why   why                 // of answeredNothing
}

// why a port did not answer: the label of a metric, and so one of few.
type why string

const (
	whyRefused why = "refused" // nothing listens
	whyTimeout why = "timeout" // no answer in time
	whyReset   why = "reset"   // the connection was cut
	whyClosed  why = "closed"  // the connection was closed
	whyAlert   why = "alert"   // TLS, and no handshake: no common version, an unknown name
	whyOther   why = "other"   // no route, and whatever else there is
)

// probe makes a TCP connection and a TLS handshake and closes it, within the
// timeout. It writes nothing else. Whoever answers is taken at the word of the
// certificate: who it is is judged later, by its hash. name is asked for (SNI).
//
// A server that demands a client's certificate has shown its own before: that it
// ends the handshake then does not matter. That the handshake fails on our side
// does: what is shown without its key is not served.
func probe(ctx context.Context, at netip.AddrPort, name string, timeout time.Duration) shown {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return shown{kind: answeredNothing, why: reasonOf(err)}
	}
	defer func() { _ = conn.Close() }()
	var chain []*x509.Certificate
	client := tls.Client(conn, &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, // what is asked is which certificate is served, not whether to trust it
		VerifyConnection: func(state tls.ConnectionState) error {
			chain = state.PeerCertificates
			return nil
		},
		MinVersion:       tls.VersionTLS10,
		CipherSuites:     allCipherSuites(),
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}, // no secret is sent: a short hello does
	})
	err = client.HandshakeContext(ctx)
	var notTLS tls.RecordHeaderError
	switch {
	case len(chain) > 0 && (err == nil || reasonOf(err) != whyOther):
		_ = client.Close() // says goodbye as TLS does, so that servers log no error
		return shown{kind: answeredTLS, chain: chain}
	case errors.As(err, &notTLS):
		return shown{kind: answeredPlaintext}
	}
	return shown{kind: answeredNothing, why: reasonOf(err)}
}

// allCipherSuites are all that there are, so that a server that speaks only old
// ones still shows its certificate.
func allCipherSuites() []uint16 {
	var ids []uint16
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, suite.ID)
	}
	return ids
}

func reasonOf(err error) why {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return whyTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return whyRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return whyReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return whyClosed
	case errors.As(err, &op) && op.Op == "remote error": // as crypto/tls names an alert
		return whyAlert
	}
	return whyOther
}
