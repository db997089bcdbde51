package process

import "syscall"

// attributes give a program a process group of its own, so that Ctrl-C reaches only the program
// that started it, which then ends it in order; and have the kernel kill it when that is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
