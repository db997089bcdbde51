// Package kubelet decides which CertificateSigningRequests for signer
// kubernetes.io/kubelet-serving are approved. In each, a kubelet requests a certificate with the
// names and addresses of its Node. kube-controller-manager signs approved requests, but approves
// none itself. The package is pure; package controller below it watches the requests and the
// Nodes, and writes the answer.
//
// The requester must be the node. Each requested name and address must be among the addresses
// of its Node, and allowed by the operator (Allowed): nodes report their own addresses, so the
// addresses of a Node alone prove nothing.
//
//	FactsOf  the request                         -> Facts: cached while the request is pending
//	NodeOf   the Node                            -> Node: its names and addresses
//	gather*  the request, its Node, other Nodes  -> Situation
//	Decide   Situation                           -> Decision: what to do, and why
//	Approval Decision                            -> the condition to write
package kubelet
