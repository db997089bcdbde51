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
	// NotVerified: unknown, because the address is not dialled, or the answer was not understood.
	NotVerified Kind = "not_verified"
)

// Cause is why a port gave no answer, or is not verified. It is a label of servingcert_probes_total
// or servingcert_dials_refused_total, so its values are few.
type Cause string

// The causes.
const (
	CauseRefused Cause = "refused" // nothing listens
	CauseTimeout Cause = "timeout" // no answer in time
	CauseReset   Cause = "reset"   // the connection was reset
	CauseClosed  Cause = "closed"  // the connection was closed
	CauseAlert   Cause = "alert"   // the handshake failed: no common version, an unknown name
	CauseOther   Cause = "other"   // no route, and everything else
	CausePanic   Cause = "panic"   // reading what the port sent ended in a panic: a bug
	// The server offers no TLS, or its answer before TLS was not understood (starttls.Protocol).
	CauseDeclined Cause = "declined"    // no TLS is offered; of kind Plaintext
	CauseProtocol Cause = "first_words" // the answer was not understood; of kind NotVerified
	// The pod has more ports than are dialled. Used in conditions only.
	CauseManyPorts Cause = "many_ports"
)

const (
	// MaxPorts is the maximum number of ports of a pod that are dialled for one key.
	MaxPorts = 16
	// MaxAnswers is the maximum number of answers of a pod that are kept, for all keys that it mounts together.
	MaxAnswers = 9 * MaxPorts
)

// Shares returns how many ports of a pod are dialled for each of the keys that it mounts, and how many of their answers
// are kept, including those of ports that no Service uses any more. All keys have the same share, so what is known of one
// does not depend on the others' Services.
func Shares(keys int) (ports, answers int) {
	answers = min(4*MaxPorts, MaxAnswers/max(1, keys))
	return min(MaxPorts, answers), answers
}

// Outcome is the result of dialling a port.
type Outcome struct {
	Kind  Kind
	Chain []*x509.Certificate // of kind TLS; the leaf is the first
	Cause Cause               // of kinds NoAnswer and NotVerified, and CauseDeclined
	Err   error               // nil for kind TLS
	// Handshake is of kind TLS; incomplete if the server ended the handshake early.
	Handshake Handshake
	// Judgement is whether the client was admitted, if the dial has waited for that. Unjudged is the cause if neither was
	// seen.
	Judgement Judgement
	Unjudged  Cause
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

// StartTLSOutcome returns the outcome of a connection on which no TLS handshake could begin, by the
// error of starttls.Protocol.Begin.
func StartTLSOutcome(err error) Outcome {
	var answer *starttls.Error
	switch {
	case !errors.As(err, &answer):
		return Unreachable(err)
	case answer.Declined:
		return Outcome{Kind: Plaintext, Cause: CauseDeclined, Err: err}
	}
	return Outcome{Kind: NotVerified, Cause: CauseProtocol, Err: err}
}

// HandshakeOutcome returns the outcome of a TLS handshake that ended with err. proven are the
// certificates that the server has shown, if it has also proved that it has the leaf's key.
//
// A server that requires a client certificate ends the handshake after that, which is no failure.
// An error on our side is one.
func HandshakeOutcome(proven []*x509.Certificate, err error) Outcome {
	var notTLS tls.RecordHeaderError
	switch {
	case len(proven) > 0 && (err == nil || causeOf(err) != CauseOther):
		return Outcome{Kind: TLS, Chain: proven}
	case errors.As(err, &notTLS):
		return Outcome{Kind: Plaintext, Err: err}
	}
	return Unreachable(err)
}

func causeOf(err error) Cause {
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(): // such as os.ErrDeadlineExceeded
		return CauseTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return CauseRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return CauseReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return CauseClosed
	case errors.As(err, &op) && op.Op == "remote error": // an alert in crypto/tls
		return CauseAlert
	}
	return CauseOther
}
