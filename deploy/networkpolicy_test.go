package deploy

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpoint is a pod, or, with no namespace, whatever else has an address.
type endpoint struct {
	namespace string
	labels    labels.Set
	ip        string
}

// flow is a connection that somebody wants to make.
type flow struct {
	from, to endpoint
	protocol corev1.Protocol
	port     int32
}

// allows reports whether the policies let the flow through, by the rules of
// networking.k8s.io/v1: a pod that no policy selects for a direction is open in it, and one
// that some select is open for what one of these allows.
func allows(t *testing.T, policies []networkingv1.NetworkPolicy, f flow) bool {
	t.Helper()
	in, out := true, true
	for _, p := range policies {
		for _, direction := range p.Spec.PolicyTypes {
			if direction == networkingv1.PolicyTypeIngress && selects(t, p, f.to) {
				in = false
			}
			if direction == networkingv1.PolicyTypeEgress && selects(t, p, f.from) {
				out = false
			}
		}
	}
	for _, p := range policies {
		for _, rule := range p.Spec.Ingress {
			in = in || selects(t, p, f.to) && matchesPeer(t, rule.From, p.Namespace, f.from) && matchesPort(rule.Ports, f)
		}
		for _, rule := range p.Spec.Egress {
			out = out || selects(t, p, f.from) && matchesPeer(t, rule.To, p.Namespace, f.to) && matchesPort(rule.Ports, f)
		}
	}
	return in && out
}

func selects(t *testing.T, p networkingv1.NetworkPolicy, e endpoint) bool {
	return e.namespace == p.Namespace && matches(t, &p.Spec.PodSelector, e.labels)
}

func matches(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(set)
}

func matchesPeer(t *testing.T, peers []networkingv1.NetworkPolicyPeer, namespace string, e endpoint) bool {
	t.Helper()
	for _, peer := range peers {
		switch {
		case peer.IPBlock != nil:
			if netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(netip.MustParseAddr(e.ip)) {
				return true
			}
		case e.namespace == "":
		case peer.NamespaceSelector == nil && e.namespace != namespace:
		case peer.NamespaceSelector != nil && !matches(t, peer.NamespaceSelector, labels.Set{corev1.LabelMetadataName: e.namespace}):
		case peer.PodSelector == nil || matches(t, peer.PodSelector, e.labels):
			return true
		}
	}
	return len(peers) == 0
}

func matchesPort(ports []networkingv1.NetworkPolicyPort, f flow) bool {
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if protocol == f.protocol && (p.Port == nil || p.Port.IntVal == f.port) {
			return true
		}
	}
	return len(ports) == 0
}

// ofKind returns the objects of one kind.
func ofKind[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var found []T
	for _, obj := range objects {
		if obj.GetKind() == kind {
			var typed T
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &typed, true))
			found = append(found, typed)
		}
	}
	return found
}

func policies(t *testing.T, optional ...string) []networkingv1.NetworkPolicy {
	t.Helper()
	objects, err := Objects()
	require.NoError(t, err)
	for _, file := range optional {
		manifest, err := os.ReadFile(file)
		require.NoError(t, err)
		more, err := Decode(manifest)
		require.NoError(t, err)
		objects = append(objects, more...)
	}
	found := ofKind[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	for _, p := range found {
		for _, ports := range [][]networkingv1.NetworkPolicyPort{ingressPorts(p), egressPorts(p)} {
			for _, port := range ports { // allows knows no other
				require.Nil(t, port.EndPort, p.Name)
				require.True(t, port.Port == nil || port.Port.Type == intstr.Int, "%s: ports by number", p.Name)
			}
		}
	}
	return found
}

func ingressPorts(p networkingv1.NetworkPolicy) (ports []networkingv1.NetworkPolicyPort) {
	for _, rule := range p.Spec.Ingress {
		ports = append(ports, rule.Ports...)
	}
	return ports
}

func egressPorts(p networkingv1.NetworkPolicy) (ports []networkingv1.NetworkPolicyPort) {
	for _, rule := range p.Spec.Egress {
		ports = append(ports, rule.Ports...)
	}
	return ports
}

// Those who connect, and to whom. Addresses are of RFC 5737.
var (
	apiServer  = endpoint{ip: "192.0.2.1"}
	node       = endpoint{ip: "192.0.2.9"}
	internet   = endpoint{ip: "203.0.113.5"}
	prometheus = endpoint{namespace: "monitoring", labels: labels.Set{"app": "prometheus"}, ip: "198.51.100.4"}
	tenant     = endpoint{namespace: "shop", labels: labels.Set{"app": "web"}, ip: "198.51.100.5"}
	resolver   = endpoint{namespace: "kube-system", labels: labels.Set{"k8s-app": "kube-dns"}, ip: "198.51.100.6"}
	signer     = process("signer")
	trust      = process("trust")
	rotator    = process("rotator")
	webhook    = process("webhook")
)

func process(name string) endpoint {
	return endpoint{namespace: "servingcert-system", labels: labels.Set{"app.kubernetes.io/part-of": "servingcert", "app.kubernetes.io/name": name}, ip: "198.51.100.1"}
}

// TestThePortsThatAreOpen: of each pod those that its Deployment names, to everybody, and no
// others.
func TestThePortsThatAreOpen(t *testing.T) {
	objects, err := Objects()
	require.NoError(t, err)
	installed := policies(t)
	deployments := ofKind[appsv1.Deployment](t, objects, "Deployment")
	require.Len(t, deployments, 4)
	for _, d := range deployments {
		template := d.Spec.Template
		pod := endpoint{namespace: d.Namespace, labels: template.Labels, ip: "198.51.100.1"}
		open := map[int32]bool{}
		for _, port := range template.Spec.Containers[0].Ports {
			open[port.ContainerPort] = true
		}
		require.NotEmpty(t, open)
		for _, from := range []endpoint{apiServer, node, prometheus, tenant, signer, internet} {
			for port := int32(1); port <= 65535; port++ {
				if !open[port] && port%97 != 0 { // of the others some
					continue
				}
				f := flow{from, pod, corev1.ProtocolTCP, port}
				assert.Equal(t, open[port], allows(t, installed, f), "%s: from %s to port %d", d.Name, from.ip, port)
			}
			assert.False(t, allows(t, installed, flow{from, pod, corev1.ProtocolUDP, 8080}), d.Name)
		}
	}
}

// TestWhereTheProcessesMayConnect: anywhere, until an operator applies policies/egress.yaml.
func TestWhereTheProcessesMayConnect(t *testing.T) {
	installed, narrowed := policies(t), policies(t, "policies/egress.yaml")
	require.Greater(t, len(narrowed), len(installed))
	for _, test := range []struct {
		name    string
		flow    flow
		allowed bool // by policies/egress.yaml
	}{
		{"the signer asks the API server", flow{signer, apiServer, corev1.ProtocolTCP, 6443}, true},
		{"the rotator asks the API server", flow{rotator, apiServer, corev1.ProtocolTCP, 6443}, true},
		{"the webhook asks the API server", flow{webhook, apiServer, corev1.ProtocolTCP, 6443}, true},
		{"by its Service", flow{webhook, apiServer, corev1.ProtocolTCP, 443}, true},
		{"the signer looks up a CA", flow{signer, resolver, corev1.ProtocolUDP, 53}, true},
		{"over TCP", flow{signer, resolver, corev1.ProtocolTCP, 53}, true},
		{"the signer asks a CA elsewhere", flow{signer, internet, corev1.ProtocolTCP, 443}, true},
		{"the signer connects to a pod", flow{signer, tenant, corev1.ProtocolTCP, 8080}, false},
		{"the signer sends to anybody", flow{signer, internet, corev1.ProtocolUDP, 4000}, false},
		{"the rotator of the bundle asks it", flow{trust, apiServer, corev1.ProtocolTCP, 6443}, true},
		{"the rotator of the bundle dials a pod", flow{trust, tenant, corev1.ProtocolTCP, 8443}, false},
		{"it looks something up", flow{trust, resolver, corev1.ProtocolUDP, 53}, false},
		{"the rotator dials a pod", flow{rotator, tenant, corev1.ProtocolTCP, 8443}, true},
		{"at another port", flow{rotator, tenant, corev1.ProtocolTCP, 12345}, true},
		{"the rotator looks something up", flow{rotator, resolver, corev1.ProtocolUDP, 53}, false},
		{"the webhook connects to a pod", flow{webhook, tenant, corev1.ProtocolTCP, 8080}, false},
		{"the webhook looks something up", flow{webhook, resolver, corev1.ProtocolUDP, 53}, false},
		{"others do what they like", flow{tenant, internet, corev1.ProtocolUDP, 4000}, true},
	} {
		assert.True(t, allows(t, installed, test.flow), "%s, without the optional policies", test.name)
		assert.Equal(t, test.allowed, allows(t, narrowed, test.flow), test.name)
	}
}
