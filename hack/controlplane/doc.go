// Package controlplane runs a real Kubernetes control plane on loopback for the
// tests, the demo and the benchmark: etcd, kube-apiserver and, optionally,
// kube-controller-manager. There is no kubelet and no kube-proxy.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	if err != nil { … }
//	defer cp.Stop()
//	client, err := kubernetes.NewForConfig(cp.AdminConfig())
//
// # Where the binaries come from
//
// From $KUBEBUILDER_ASSETS if it is set. Otherwise they are built once, from the Go
// modules that build/go.mod pins, into the user's cache directory; see [Binaries].
//
// # Differences from a real cluster
//
// RBAC and the ServiceAccount admission plugin are enabled, and ServiceAccount
// tokens work, so that a process can run as its ServiceAccount with exactly the
// permissions of its RBAC rules ([ControlPlane.ServiceAccountConfig]).
//
// That admission plugin rejects a pod whose namespace has no ServiceAccount
// "default". Without kube-controller-manager, a loop of this package creates it
// in each namespace. Nothing else of kube-controller-manager is imitated:
// without it, a deleted namespace stays Terminating, garbage is not collected,
// and Deployments get no pods.
//
// etcd does not fsync, and kube-apiserver's limits on requests in flight are
// disabled, so that benchmarks measure neither the disk nor a queue.
//
// # Webhooks
//
// ClusterIPs are in 127.N.0.0/16 with a random N, so that two control planes
// rarely share a range; Linux routes all of 127.0.0.0/8 to the host itself. A
// process that listens on its Service's ClusterIP and port is therefore called
// by kube-apiserver as a webhook in a cluster is: by clientConfig.service, with
// the name SVC.NS.svc verified against caBundle, and without kube-proxy. Port and
// targetPort must be equal, and above 1023 unless the process is root.
//
// # Why not envtest
//
// controller-runtime's envtest also starts etcd and kube-apiserver. This package
// adds kube-controller-manager, an API server that can be stopped and restarted
// with its data, and processes that die with the test binary that started them,
// even if it panics or is killed.
package controlplane
