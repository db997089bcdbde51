package node

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"os"

	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
)

// The key pairs, all in directory pki, are issued by one CA, except kube-apiserver's client certificate
// for aggregated API servers: clients with a certificate of that CA may impersonate anyone.

// signingKey is the CA's key, with which kube-controller-manager signs approved requests.
const signingKey = "cluster-signing.key"

// writeCredentials writes keys, certificates and kubeconfigs.
func (n *Node) writeCredentials() error {
	ca, err := certs.New(n.path("pki"), "ca", "servingcert node CA")
	if err != nil {
		return err
	}
	if err := ca.WriteKey(n.path("pki", signingKey)); err != nil {
		return err
	}
	if err := n.writeServing(ca); err != nil {
		return err
	}
	for _, user := range []struct{ file, user, group string }{
		{"admin", "servingcert:admin", "system:masters"},
		{controlplane.KubeControllerManager, "system:kube-controller-manager", ""},
		{controlplane.KubeScheduler, "system:kube-scheduler", ""},
		{controlplane.KubeProxy, "system:kube-proxy", "system:node-proxier"},
		{controlplane.Kubelet, "system:node:" + nodeName, "system:nodes"},
		{"apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"},
		{"etcd-client", "kube-apiserver-etcd-client", ""},
	} {
		pair, err := ca.IssueClient("client-"+user.file, user.user, groups(user.group)...)
		if err != nil {
			return err
		}
		cfg := &rest.Config{Host: n.apiServer(), TLSClientConfig: rest.TLSClientConfig{
			CAData: ca.CAPEM, CertData: pair.CertPEM, KeyData: pair.KeyPEM,
		}}
		if err := controlplane.WriteKubeconfig(n.kubeconfig(user.file), cfg); err != nil {
			return err
		}
	}
	front, err := certs.New(n.path("pki"), "front-proxy-ca", "servingcert node front-proxy CA")
	if err != nil {
		return err
	}
	if _, err := front.IssueClient("front-proxy-client", "front-proxy-client"); err != nil {
		return err
	}
	return certs.WriteKey(n.path("pki", "serviceaccount.key"))
}

func groups(group string) []string {
	if group == "" {
		return nil
	}
	return []string{group}
}

// writeServing issues the serving certificates for the node's address.
func (n *Node) writeServing(ca *certs.Authority) error {
	names := map[string][]string{
		controlplane.KubeAPIServer: {
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		controlplane.Etcd:                  {"localhost"},
		controlplane.KubeControllerManager: {"localhost"},
		controlplane.KubeScheduler:         {"localhost"},
		controlplane.Kubelet:               {nodeName},
	}
	for file, dnsNames := range names {
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		addresses := []netip.Addr{n.NodeIP}
		if file == controlplane.KubeAPIServer {
			addresses = append(addresses, n.APIIP)
		}
		if file == controlplane.Etcd {
			usages = append(usages, x509.ExtKeyUsageClientAuth) // between members
		}
		want := &x509.Certificate{ExtKeyUsage: usages, DNSNames: dnsNames}
		for _, ip := range addresses {
			want.IPAddresses = append(want.IPAddresses, net.IP(ip.AsSlice()))
		}
		if _, err := ca.Issue(file, want); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) kubeconfig(user string) string { return n.path("pki", user+".kubeconfig") }

// prober returns a client that may read the health of each component.
func (n *Node) prober() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(n.path("pki", "client-admin.crt"), n.path("pki", "client-admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(n.path("pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		Proxy:             nil,
	}}, nil
}
