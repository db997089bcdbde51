package cfssl

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// Error is why the servers returned no certificate, or an invalid one.
type Error = remote.Error

// unreachable returns the error for a request without an answer.
func unreachable(err error, timeout time.Duration) *Error {
	if t, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && t.Timeout() {
		return remote.NewError(issue.ReasonUnreachable, "no answer within %s", timeout)
	}
	return remote.NewError(issue.ReasonUnreachable, "%s", remote.Cause(err))
}
