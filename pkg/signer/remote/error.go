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

// Error is why a remote CA returned no certificate, or an invalid one. The message names each
// server and its error. It goes into conditions, so it does not change while the cause is the
// same: it has no times and no local ports. It never contains the key.
type Error struct {
	reason  issue.Reason
	message string
}

func (e *Error) Error() string { return e.message }

// Reason returns the condition's reason.
func (e *Error) Reason() string { return string(e.reason) }

// Has reports whether the error has the reason.
func (e *Error) Has(reason issue.Reason) bool { return e.reason == reason }

// Broken reports whether the server would fail for any request.
func (e *Error) Broken() bool {
	return e.reason == issue.ReasonUnreachable || e.reason == issue.ReasonCAAnswer
}

// maxCause is the most bytes of a message about one server, which may quote its answer.
const maxCause = 300

// NewError returns an error whose message is one line of bounded length.
func NewError(reason issue.Reason, format string, args ...any) *Error {
	message := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	if len(message) > maxCause {
		message = message[:maxCause] + "…"
	}
	return &Error{reason, strings.ToValidUTF8(message, "�")}
}

// At returns the error with the name of the server in its message.
func (e *Error) At(server string) *Error {
	return &Error{e.reason, server + ": " + e.message}
}

// Join returns one error for the errors of several servers. The first gives the reason.
func Join(errs []*Error) *Error {
	messages := make([]string, 0, len(errs))
	for _, err := range errs {
		messages = append(messages, err.message)
	}
	return &Error{errs[0].reason, strings.Join(messages, "; ")}
}

// Cause returns the error's text without the parts that differ between attempts: the local
// port of a connection, and the current time.
func Cause(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Sprintf("certificate %q has expired or is not valid yet", invalid.Cert.Subject)
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return fmt.Sprintf("host %q does not exist", lookup.Name)
		}
		return fmt.Sprintf("host %q cannot be resolved", lookup.Name)
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
