package node

import "syscall"

// newNamespaces makes a process the first one in new namespaces.
func newNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
	}
}
