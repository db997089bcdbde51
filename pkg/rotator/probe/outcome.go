package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// Kind is how a port answered.
type Kind string

// The kinds of answers.
const (
	TLS       Kind = "tls"
	Plaintext Kind = "plaintext"
	NoAnswer  Kind = "unreachable"
	// NotVerified: it is not known, since the address is not dialled, or what the port
	// sent could not be judged.
	NotVerified Kind = "not_verified"
)

// Cause is why a port gave no answer, or is not verified: a label of
// servingcert_probes_total or servingcert_visits_refused_total, and so one of few.
type Cause string

// The causes.
const (
	CauseRefused Cause = "refused" // nothing listens
	CauseTimeout Cause = "timeout" // no answer in time
	CauseReset   Cause = "reset"   // the connection was reset
	CauseClosed  Cause = "closed"  // the connection was closed
	CauseAlert   Cause = "alert"   // TLS without a handshake: no common version, an unknown name
	CauseOther   Cause = "other"   // no route, and everything else
	CausePanic   Cause = "panic"   // reading what the port sent ended in a panic: a bug
	// What the server answered to what comes before TLS (starttls.Protocol).
	CauseDeclined Cause = "declined"    // it offers no TLS; of kind Plaintext
	CauseWords    Cause = "first_words" // it was not understood; of kind NotVerified
	// The pod has more ports than are dialled (MaxPorts). Said in conditions alone.
	CauseManyPorts Cause = "many_ports"
)

// MaxPorts is how many ports of a pod are dialled.
const MaxPorts = 16

// Outcome is what a dial found at a port.
type Outcome struct {
	Kind  Kind
	Chain []*x509.Certificate // of kind TLS; the leaf is the first
	Cause Cause               // of kinds NoAnswer and NotVerified, and CauseDeclined
	Err   error               // nil for kind TLS
	// Handshake is of kind TLS, and with less in it if the server has ended the handshake early.
	Handshake Handshake
}

// Label returns the value of label result of servingcert_probes_total.
func (o Outcome) Label() string {
	if o.Kind == NoAnswer || o.Kind == NotVerified {
		return string(o.Cause)
	}
	return string(o.Kind)
}

// Unreachable returns the outcome of a connection that failed with err.
func Unreachable(err error) Outcome { return Outcome{Kind: NoAnswer, Cause: causeOf(err), Err: err} }

// JudgeWords returns the outcome of a connection on which no TLS handshake could begin: err is
// why (starttls.Protocol.Begin).
func JudgeWords(err error) Outcome {
	var answer *starttls.Error
	switch {
	case !errors.As(err, &answer):
		return Unreachable(err)
	case answer.Declined:
		return Outcome{Kind: Plaintext, Cause: CauseDeclined, Err: err}
	}
	return Outcome{Kind: NotVerified, Cause: CauseWords, Err: err}
}

// Judge returns the outcome of a TLS handshake that showed the certificates and
// ended with err.
//
// A server that requires a client certificate has shown its own before: that the
// server ends the handshake then does not matter. That the handshake fails on our
// side does: a certificate that is shown without its key is not served.
func Judge(shown []*x509.Certificate, err error) Outcome {
	var notTLS tls.RecordHeaderError
	switch {
	case len(shown) > 0 && (err == nil || causeOf(err) != CauseOther):
		return Outcome{Kind: TLS, Chain: shown}
	case errors.As(err, &notTLS):
		return Outcome{Kind: Plaintext, Err: err}
	}
	return Unreachable(err)
}

func causeOf(err error) Cause {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(): // os.ErrDeadlineExceeded is one, too
		return CauseTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return CauseReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return CauseClosed
	case errors.As(err, &op) && op.Op == "remote error": // as crypto/tls names an alert
		return CauseAlert
	}
	return CauseOther
}
