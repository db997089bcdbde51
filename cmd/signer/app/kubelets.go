package app

import (
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/pkg/signer/kubelet"
	kubeletcontroller "github.com/servingcert/servingcert/pkg/signer/kubelet/controller"
)

// kubeletFlags are the flags of what approves the kubelets' own serving certificates.
type kubeletFlags struct {
	approve         bool
	cidrs, suffixes []string
	allowed         kubelet.Allowed
}

func (f *kubeletFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.approve, "approve-kubelet-serving", f.approve, "approve CertificateSigningRequests of kubelets for signer "+kubelet.SignerName+", which kube-controller-manager signs; requires --node-cidrs or --node-dns-suffixes")
	fs.StringSliceVar(&f.cidrs, "node-cidrs", nil, "ranges of IP addresses that nodes, and nothing else, have; with --approve-kubelet-serving, no other address is approved")
	fs.StringSliceVar(&f.suffixes, "node-dns-suffixes", nil, "domains that the DNS names of nodes are below; with --approve-kubelet-serving, no other name is approved but the bare name of the Node")
}

func (f *kubeletFlags) validate(clusterDomain string) (err error) {
	if f.approve {
		f.allowed, err = kubelet.ParseAllowed(f.cidrs, f.suffixes, clusterDomain)
	}
	return err
}

// kubeletConfig is of the controller that approves the requests of kubelets.
func (c *Config) kubeletConfig() kubeletcontroller.Config {
	shared := c.requestConfig()
	return kubeletcontroller.Config{Allowed: c.Kubelets.allowed, Workers: shared.Workers, Clock: shared.Clock, Registerer: shared.Registerer}
}
