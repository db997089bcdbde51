// Package kubelets judges which certificate the kubelet of a node serves: the last one that it was issued
// through a CertificateSigningRequest for kubernetes.io/kubelet-serving, another one, or none that is good.
// Package controller below it dials them.
//
// No certificate is verified by a CA: which one kube-controller-manager signs with is not known here, and
// who has a node may serve whatever the node was given. What is found are kubelets that are not set up, do
// not renew, or do not take up what they got.
//
//	NodeOf    the Node        -> Node: its addresses
//	IssuedOf  the request     -> Issued: the certificate that its node was given
//	Judge     what was served -> State, and why
package kubelets
