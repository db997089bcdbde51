package app

import (
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/pkg/signer/kubelet"
	kubeletcontroller "github.com/servingcert/servingcert/pkg/signer/kubelet/controller"
)

// kubeletFlags are the flags for approving kubelets' serving certificates.
type kubeletFlags struct {
	approve         bool
	cidrs, suffixes []string
	allowed         kubelet.Allowed
}

func (f *kubeletFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.approve, "approve-kubelet-serving", f.approve, "approve CertificateSigningRequests of kubelets for signer "+kubelet.SignerName+", which kube-controller-manager signs; requires --node-cidrs or --node-dns-suffixes")
	fs.StringSliceVar(&f.cidrs, "node-cidrs", nil, "IP address ranges that only nodes use; with --approve-kubelet-serving, no other address is approved")
	fs.StringSliceVar(&f.suffixes, "node-dns-suffixes", nil, "parent domains of the nodes' DNS names; with --approve-kubelet-serving, no other name is approved except the Node's bare name")
}

func (f *kubeletFlags) validate(clusterDomain string) (err error) {
	if f.approve {
		f.allowed, err = kubelet.ParseAllowed(f.cidrs, f.suffixes, clusterDomain)
	}
	return err
}

// kubeletConfig returns the configuration of the controller that approves kubelets' requests.
func (c *Config) kubeletConfig() kubeletcontroller.Config {
	shared := c.requestConfig()
	return kubeletcontroller.Config{Allowed: c.Kubelets.allowed, Workers: shared.Workers, Clock: shared.Clock, Registerer: shared.Registerer}
}
