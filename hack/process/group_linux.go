package process

import "syscall"

// attributes puts a program into its own process group, so that Ctrl-C reaches only its parent, which
// then stops it in order. The kernel kills the program when the thread that started it exits.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
