// Command pause does nothing until it is told to end. It is the first process of
// each pod, which holds the pod's namespaces, and of the node itself (package node).
// Processes whose parents are gone become its children: it ignores how they end, so
// that the kernel keeps no zombies for it.
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
