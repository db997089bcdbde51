package cfsslserver

import "syscall"

// procAttr has the kernel kill a server when the test that started it is gone.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
