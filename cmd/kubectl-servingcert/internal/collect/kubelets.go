package collect

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

const (
	// kubeletPort is the default port of kubelets. The port in a Node's status is not used, so that a node cannot
	// have other ports dialled.
	kubeletPort    = 10250
	kubeletTimeout = 5 * time.Second
	kubeletsAtOnce = 16
)

// dialKubelets returns the certificate of each node's kubelet, at the node's first internal address.
func dialKubelets(ctx context.Context, nodes []corev1.Node) []doctor.Kubelet {
	out := make([]doctor.Kubelet, len(nodes))
	var dials errgroup.Group
	dials.SetLimit(kubeletsAtOnce)
	for i := range nodes {
		dials.Go(func() error {
			out[i] = dialKubelet(ctx, &nodes[i])
			return nil
		})
	}
	_ = dials.Wait() // none returns an error
	return out
}

func dialKubelet(ctx context.Context, node *corev1.Node) doctor.Kubelet {
	k := doctor.Kubelet{Node: node.Name, Problem: "the Node has no internal address"}
	for _, a := range node.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if a.Type != corev1.NodeInternalIP || err != nil {
			continue
		}
		k.Address = address.Unmap()
		outcome := dial.Dial(ctx, netip.AddrPortFrom(k.Address, kubeletPort).String(), k.Address.String(), starttls.TLS, kubeletTimeout)
		switch outcome.Kind {
		case probe.TLS:
			k.Leaf, k.Problem = outcome.Chain[0], ""
		case probe.Plaintext:
			k.Problem = "it does not answer with TLS"
		default:
			k.Problem = string(outcome.Cause)
		}
		return k
	}
	return k
}
