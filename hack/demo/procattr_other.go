//go:build unix && !linux

package main

import "syscall"

// procAttr gives a component a process group of its own, so that Ctrl-C reaches
// the demo alone, which then stops its components in order. Only Linux can do more.
func procAttr(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
