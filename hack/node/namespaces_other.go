//go:build unix && !linux

package node

import "syscall"

// newNamespaces lets the package compile: Up returns an error before.
func newNamespaces() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
