// Package world is a cluster to break: etcd, kube-apiserver and kube-controller-manager on
// loopback, two replicas of signer, rotator and webhook as deploy/install.yaml has them, each
// behind proxies, and what works in the cluster meanwhile.
package world
