package kubelet

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Node is what is remembered of a Node: the names and addresses that it reports.
type Node struct {
	metav1.TypeMeta   // empty
	metav1.ObjectMeta // name, UID, resource version and deletion only

	// Names are its host names and DNS names in lower case, IPs its internal and external
	// addresses. Both are sorted, without duplicates, and have at most maxReported in total.
	Names []string
	IPs   []netip.Addr
}

// maxReported is how many of a Node's addresses are read, in the order of its status.
const maxReported = 64

// NodeOf returns the Node of an object.
func NodeOf(o *corev1.Node) *Node {
	n := &Node{ObjectMeta: metav1.ObjectMeta{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, DeletionTimestamp: o.DeletionTimestamp,
	}}
	for _, a := range o.Status.Addresses[:min(len(o.Status.Addresses), maxReported)] {
		switch a.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			if len(a.Address) <= validation.DNS1123SubdomainMaxLength {
				n.Names = append(n.Names, strings.Clone(strings.ToLower(a.Address)))
			}
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				n.IPs = append(n.IPs, ip.Unmap())
			}
		}
	}
	slices.Sort(n.Names)
	slices.SortFunc(n.IPs, netip.Addr.Compare)
	n.Names, n.IPs = slices.Compact(n.Names), slices.Compact(n.IPs)
	return n
}

// Reports returns the names and addresses, in the form of Asked.Claims.
func (n *Node) Reports() []string {
	reports := slices.Clone(n.Names)
	for _, ip := range n.IPs {
		reports = append(reports, ip.String())
	}
	return reports
}

// Claims returns the keys under which the Node is indexed: Reports, and its own name, even if it
// does not report that.
func (n *Node) Claims() []string {
	claims := n.Reports()
	if !slices.Contains(claims, n.Name) {
		claims = append(claims, n.Name)
	}
	return claims
}

// SameAddresses reports whether both report the same, or both are nil.
func (n *Node) SameAddresses(other *Node) bool {
	if n == nil || other == nil {
		return n == other
	}
	return n.UID == other.UID && n.DeletionTimestamp.Equal(other.DeletionTimestamp) && slices.Equal(n.Names, other.Names) && slices.Equal(n.IPs, other.IPs)
}

// DeepCopyObject implements runtime.Object.
func (n *Node) DeepCopyObject() runtime.Object {
	out := *n
	return &out
}
