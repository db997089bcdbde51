// Package kubelet decides which CertificateSigningRequests for signer
// kubernetes.io/kubelet-serving are approved: a kubelet made a key, and asks for a certificate
// with the names and addresses of its Node. kube-controller-manager signs what is approved, and
// approves none itself. The package is pure; package controller below it watches the requests
// and the Nodes, and writes the answer.
//
// The requester must be the node, and everything it asks for must be both among the addresses
// of its Node and inside what the operator said (Allowed): a node reports its addresses itself,
// so that what it reports is a claim.
//
//	FactsOf  the request                    -> Facts: what is kept while it waits
//	NodeOf   the Node                       -> Node: its names and addresses
//	gather*  the request, its Node, others  -> Situation
//	Decide   Situation                      -> Decision: what is done, and why
//	Approval Decision                       -> what is written into the request
package kubelet
