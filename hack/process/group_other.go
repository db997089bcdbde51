//go:build unix && !linux

package process

import "syscall"

// attributes give a program a process group of its own. Only Linux can kill it when the program
// that started it is gone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
