package node

import "syscall"

// newNamespaces starts a process as the first of a world of its own.
func newNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	}
}
