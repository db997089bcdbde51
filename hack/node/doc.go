// Package node runs a whole Kubernetes on one Linux machine, with real pods: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy and
// CoreDNS, on Debian's containerd and runc. make node-up and make node-down are its
// commands, the end-to-end tests call it. It needs root.
//
//	n, err := node.Up(ctx, node.Options{})
//	if err != nil { … }
//	client, err := kubernetes.NewForConfig(n.Config())
//	…
//	err = node.Down(ctx, node.Options{})
//
// # A node in its own namespaces
//
// The node is to the machine what a container is: all of its processes live in a
// network, a mount and a process namespace of their own. The first process there
// does nothing but hold them. Therefore
//
//   - no iptables rule, no interface and no mount of the machine changes, with one
//     exception: one end of a virtual cable, and a route into it;
//   - when that first process dies, the kernel kills every other one, pods included,
//     and takes mounts, interfaces and rules away: Down cannot forget any, whatever
//     state a crash has left;
//   - several nodes can run at once, and beside a cluster that the machine has, if
//     each has its own directory and subnet.
//
// What is left to clean up is the cgroup below which the pods are, and the
// directory, which holds all state. A few paths are fixed in kubelet, containerd and
// the CNI library; inside of the node's mount namespace they lead into the directory.
//
// # Addresses
//
// [Options.Subnet] is split in three (see layout): the cable, ClusterIPs and pods.
// The machine has a route to all of it, so that pods, ClusterIPs and the API server
// can be dialled from it. It cannot be reached from outside of the machine, nor does
// it reach out: images come from files ([Node.Import]), and CoreDNS knows the names
// of the cluster and no others. From the machine, a name is asked for at
// [Node.DNSAddress]; [Node.Dialer] does so.
//
// # What is like a real cluster, and what is not
//
// Admission plugins, Node and RBAC authorization, kubelet authentication and
// authorization by the API server, the aggregation layer and all controllers are as
// kubeadm sets them up. The kubelet's certificate is of the cluster's CA. Features
// ClusterTrustBundle and PodCertificateRequest are on. There is one node, etcd does
// not fsync, nothing signs CertificateSigningRequests, and there is no leader
// election, so that a component that was killed acts at once when it is back.
package node
