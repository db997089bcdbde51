// Package gitops runs Argo CD and Flux against servingcert: their own controllers, built
// from their modules, on a real control plane, with the processes of cmd beside them. What
// they are given is what docs/gitops.md says to give them.
//
// Of Argo CD the application controller and the repository server run, with a Redis from
// Debian's packages and a Git repository on disk. Of Flux the kustomize-controller runs.
// The part of its source-controller, an archive over HTTP and the status of a GitRepository
// that leads to it, is the tests' own.
//
//	$ make gitops    # Debian, root
package gitops
