// Package node runs a complete Kubernetes cluster with real pods on one Linux machine: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy and CoreDNS,
// on Debian's containerd and runc. It is used by make node-up, make node-down and the
// end-to-end tests. It needs root.
//
//	n, err := node.Up(ctx, node.Options{})
//	if err != nil { … }
//	client, err := kubernetes.NewForConfig(n.Config())
//	…
//	err = node.Down(ctx, node.Options{})
//
// # Namespaces
//
// Like a container, the node runs in its own network, mount and PID namespaces. Their first
// process, the holder, does nothing else. Therefore
//
//   - the machine's iptables rules, interfaces and mounts do not change, except for one end
//     of a veth pair and a route to it;
//   - when the holder dies, the kernel kills all other processes, including pods, and removes
//     mounts, interfaces and rules: Down leaves none of these behind, even after a crash;
//   - several nodes can run concurrently, and beside another cluster on the machine, if each
//     has its own directory and subnet.
//
// Down removes the pods' parent cgroup and the directory, which contains all state. Some paths
// are fixed in the kubelet, containerd and the CNI library; in the node's mount namespace,
// they are in the directory.
//
// # Addresses
//
// [Options.Subnet] contains the veth pair, ClusterIPs and pods (see layout). The machine has a
// route to it, so that it can dial pods, ClusterIPs and the API server. The node is isolated
// from other networks: images come from files ([Node.Import]), and CoreDNS only resolves names
// of the cluster. [Node.Dialer] resolves names with it from the machine, at [Node.DNSAddress].
//
// # Differences from a real cluster
//
// Admission plugins, Node and RBAC authorization, kubelet authentication and authorization, the
// aggregation layer and all controllers are configured as by kubeadm. The cluster's CA issued the
// kubelet's certificate. Features ClusterTrustBundle and PodCertificateRequest are enabled. There
// is one node, etcd does not fsync, CertificateSigningRequests are not signed, and there is no
// leader election, so that a restarted component works at once.
package node
