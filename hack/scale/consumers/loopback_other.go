//go:build !linux

package consumers

import (
	"errors"
	"syscall"
)

// onLoopbackOnly fails: other systems do not answer at all addresses of loopback either.
func onLoopbackOnly(string, string, syscall.RawConn) error {
	return errors.New("pods that serve need Linux")
}
