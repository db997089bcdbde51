// Command pause waits for a signal to exit. It is the first process of each pod, where it holds
// the pod's namespaces, and of the node itself (package node). Orphaned processes become its
// children: it ignores their exit, so that the kernel keeps no zombies.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signal.Ignore(syscall.SIGCHLD)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
