package main

import "syscall"

// procAttr gives a component a process group of its own, so that Ctrl-C reaches
// the demo alone, which then stops its components in order; and has the kernel
// send it a signal if the demo is killed.
func procAttr(onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
}
