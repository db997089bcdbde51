package consumers

import (
	"errors"
	"syscall"
)

// onLoopbackOnly lets a socket of all addresses be reached through loopback alone.
func onLoopbackOnly(_, _ string, c syscall.RawConn) (err error) {
	return errors.Join(c.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), "lo") }), err)
}
