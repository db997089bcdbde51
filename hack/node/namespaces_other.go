//go:build unix && !linux

package node

import "syscall"

// newNamespaces is here so that the package can be compiled: Up has refused before.
func newNamespaces() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
