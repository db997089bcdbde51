//go:build !linux

package cfsslserver

import "syscall"

// procAttr: other kernels have no way to kill a server with its parent.
func procAttr() *syscall.SysProcAttr { return nil }
