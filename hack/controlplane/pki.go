package controlplane

import (
	"crypto/x509"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/servingcert/servingcert/hack/controlplane/certs"
)

// pki contains the CA of the control plane, a key pair for each component, and the key that
// signs ServiceAccount tokens.
type pki struct {
	*certs.Authority
	serving        certs.KeyPair
	admin          certs.KeyPair
	manager        certs.KeyPair
	accountKeyFile string
}

// newPKI writes new keys and certificates into dir.
func newPKI(dir string, serviceIP netip.Addr) (*pki, error) {
	ca, err := certs.New(dir, "ca", "control plane CA")
	if err != nil {
		return nil, err
	}
	p := &pki{Authority: ca, accountKeyFile: filepath.Join(dir, "serviceaccount.key")}
	if p.serving, err = p.Issue("kube-apiserver", &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IP(serviceIP.AsSlice())},
		DNSNames:    []string{"localhost", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
	}); err != nil {
		return nil, err
	}
	if p.admin, err = p.IssueClient("admin", "servingcert:admin", "system:masters"); err != nil {
		return nil, err
	}
	if p.manager, err = p.IssueClient(KubeControllerManager, "system:kube-controller-manager"); err != nil {
		return nil, err
	}
	return p, certs.WriteKey(p.accountKeyFile)
}
