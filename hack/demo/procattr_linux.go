package main

import "syscall"

// procAttr gives a component a process group of its own, so that Ctrl-C reaches
// the demo alone, which then stops its components in order; and has the kernel
// kill it if the demo is killed.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
