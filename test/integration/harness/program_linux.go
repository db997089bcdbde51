package harness

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the process when the tests end, however they end.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
