// Package controlplane runs a real Kubernetes control plane on loopback for the
// tests, the demo and the benchmark: etcd, kube-apiserver and, when asked for,
// kube-controller-manager. There is no kubelet and no kube-proxy.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	if err != nil { … }
//	defer cp.Stop()
//	client, err := kubernetes.NewForConfig(cp.AdminConfig())
//
// # Where the binaries come from
//
// A user's KUBEBUILDER_ASSETS wins. Without it they are built from the Go
// modules that build/go.mod pins, once, into the user's cache directory; see
// [Binaries].
//
// # What is like a real cluster, and what is not
//
// RBAC and the ServiceAccount admission plugin are on, and ServiceAccount
// tokens work, so that a process can run as its ServiceAccount with the rights
// of its RBAC rules and no more ([ControlPlane.ServiceAccountConfig]).
//
// That admission plugin refuses a pod whose namespace has no ServiceAccount
// "default". kube-controller-manager makes one in each namespace; where it is
// not running, a small loop of this package does the same. Nothing else of
// kube-controller-manager is imitated: without it a deleted namespace stays
// Terminating, owner references collect nothing, and a Deployment has no pods.
//
// etcd does not fsync and kube-apiserver's limits on requests in flight are off,
// so that what a benchmark measures is the work and not the disk or a queue.
//
// # Webhooks are reached by their Service
//
// ClusterIPs lie in 127.0.0.0/8 ([Options.ServiceCIDR]), all of which Linux
// routes to the host itself. A process that listens on its Service's ClusterIP,
// at the Service's port, is therefore reached by kube-apiserver exactly as a
// webhook in a cluster is: clientConfig.service, the name SVC.NS.svc verified
// against caBundle, and no kube-proxy. Port and targetPort must be equal, and
// above 1023 unless the process is root.
//
// # Why not envtest
//
// controller-runtime's envtest starts etcd and kube-apiserver too. This package
// also needs kube-controller-manager beside them, an API server that goes away
// and comes back with its data, and processes that die with the test binary
// that started them, a panic or kill -9 of it included.
package controlplane
