//go:build unix && !linux

package controlplane

import "syscall"

// procAttr gives a component its own process group, so that a Ctrl-C in the
// terminal reaches only the program that started it. Only Linux can kill a child
// when its parent is gone.
func procAttr(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
