//go:build unix && !linux

package process

import "syscall"

// attributes puts a program into its own process group. Only Linux can kill it when its parent dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
