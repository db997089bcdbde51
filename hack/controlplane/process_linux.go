package controlplane

import "syscall"

// procAttr gives a component its own process group, so that a Ctrl-C in the
// terminal reaches only the program that started it, which then stops its
// components in order. Unless it shall outlive that program, the kernel kills it
// when the program is gone.
func procAttr(outlive bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if !outlive {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}
