package kubelets

import (
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Port is where kubelets serve. A Node reports one, too, but what a node reports must not let it have other
// ports of the other nodes dialled.
const Port = 10250

// nodeUser is what the API server calls the kubelet of a node, before the node's name.
const nodeUser = "system:node:"

// maxAddresses is how many addresses are kept of a Node.
const maxAddresses = 8

// Node is what is remembered of a Node.
type Node struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID and resource version only

	// Addresses are its internal ones, in its order, in which its clients try them.
	Addresses []netip.Addr
}

// NodeOf returns what is remembered of a Node.
func NodeOf(o *corev1.Node) *Node {
	n := &Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}}
	for _, a := range o.Status.Addresses {
		if a.Type != corev1.NodeInternalIP || len(n.Addresses) == maxAddresses {
			continue
		}
		if address, err := netip.ParseAddr(a.Address); err == nil {
			n.Addresses = append(n.Addresses, address.Unmap())
		}
	}
	return n
}

// Same reports whether both are dialled alike, or neither is there.
func (n *Node) Same(other *Node) bool {
	if n == nil || other == nil {
		return n == other
	}
	return n.UID == other.UID && slices.Equal(n.Addresses, other.Addresses)
}

// DeepCopyObject implements runtime.Object.
func (n *Node) DeepCopyObject() runtime.Object {
	out := *n
	return &out
}

// Issued is what is remembered of a request for kubernetes.io/kubelet-serving.
type Issued struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID, resource version and when it was made

	// Node is the name of the node that asks, and Leaf the fingerprint of what it was issued; "" before.
	Node, Leaf string
}

// IssuedOf returns what is remembered of a request.
func IssuedOf(o *certificatesv1.CertificateSigningRequest) *Issued {
	i := &Issued{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp}}
	name, ofNode := strings.CutPrefix(o.Spec.Username, nodeUser)
	if chain, err := pki.ParseCertificates(o.Status.Certificate); ofNode && err == nil {
		i.Node, i.Leaf = strings.Clone(name), pki.Fingerprint(chain[0])
	}
	return i
}

// DeepCopyObject implements runtime.Object.
func (i *Issued) DeepCopyObject() runtime.Object {
	out := *i
	return &out
}
