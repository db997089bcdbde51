package remote

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Error is why a remote CA gave no certificate, or none that counts.
// Its message names whom was asked and what is wrong with each. It is the same as
// long as the cause is: no times, no ports of this end, since it goes into
// conditions. It never holds the key.
type Error struct {
	reason  issue.Reason
	message string
}

func (e *Error) Error() string { return e.message }

// Reason is the condition's.
func (e *Error) Reason() string { return string(e.reason) }

// Has reports whether the error has the reason.
func (e *Error) Has(reason issue.Reason) bool { return e.reason == reason }

// Broken reports whether the server does not work, whatever is asked of it.
func (e *Error) Broken() bool {
	return e.reason == issue.ReasonUnreachable || e.reason == issue.ReasonCAAnswer
}

// maxCause bounds the message about one server, which may quote its answer.
const maxCause = 300

// NewError returns an error whose message is one line of bounded length.
func NewError(reason issue.Reason, format string, args ...any) *Error {
	message := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	if len(message) > maxCause {
		message = message[:maxCause] + "…"
	}
	return &Error{reason, strings.ToValidUTF8(message, "�")}
}

// At names the server that the error is about.
func (e *Error) At(server string) *Error {
	return &Error{e.reason, server + ": " + e.message}
}

// Join joins what each server had to say. The first is asked first, and
// gives the reason.
func Join(errs []*Error) *Error {
	messages := make([]string, 0, len(errs))
	for _, err := range errs {
		messages = append(messages, err.message)
	}
	return &Error{errs[0].reason, strings.Join(messages, "; ")}
}

// Cause is the error's text without what differs from one attempt to the next:
// the port of this end of a connection, and the time that it is.
func Cause(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Sprintf("certificate %q has expired or is not valid yet", invalid.Cert.Subject)
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return fmt.Sprintf("there is no host %q", lookup.Name)
		}
		return fmt.Sprintf("host %q cannot be looked up", lookup.Name)
	}
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		return system.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}
