package controlplane

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
)

// Options says what to run. The zero value is what most tests want.
type Options struct {
	// ControllerManager runs kube-controller-manager too: Deployments get pods,
	// owner references collect garbage, namespaces go away.
	ControllerManager bool
	// ApprovedRequests has kube-controller-manager sign the CertificateSigningRequests of
	// Kubernetes' own signers that are approved, with the CA of the control plane.
	ApprovedRequests bool

	// Dir holds data, keys and logs. It is created if it is missing and must be
	// empty otherwise. Default: a new temporary directory.
	Dir string

	// ServiceCIDR is the range of ClusterIPs. Default: 127.N.0.0/16 with a random
	// N, so that ClusterIPs are addresses of this host (see the package comment)
	// and two control planes rarely share one.
	ServiceCIDR string

	// Features are turned on where kube-apiserver is new enough for them. Others are as its version
	// has them by default.
	Features []Feature
	// Without are features that are turned off.
	Without []Feature

	// ExtraAPIServerArgs are added to kube-apiserver's flags, after ours: of a
	// flag with one value the last wins.
	ExtraAPIServerArgs []string

	// EtcdDir is the data directory of etcd, which may be on a file system of its own. It
	// must not exist; its parent must. Default: a directory in Dir.
	EtcdDir string

	// EtcdVia is called once with etcd's address, host:port, and returns the one at which
	// kube-apiserver is to reach it: that of a proxy. Default: etcd itself.
	EtcdVia func(address string) (string, error)

	// AuditUsers are those whose requests kube-apiserver writes down, without their
	// content, for AuditEvents. Default: nobody's.
	AuditUsers []string

	// OutliveParent leaves the processes running when the program that started
	// them ends without calling Stop. Default: the kernel kills them then (on
	// Linux).
	OutliveParent bool

	// Log receives the progress of a build of the binaries. Default: os.Stderr.
	Log io.Writer
}

// withDefaults fills in what was left empty, and says what is not allowed.
func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.ServiceCIDR == "" {
		// 127.0.0.0/16 is left alone: resolvers and other daemons listen there.
		o.ServiceCIDR = fmt.Sprintf("127.%d.0.0/16", 16+rand.IntN(239))
	}
	prefix, err := netip.ParsePrefix(o.ServiceCIDR)
	if err != nil || !prefix.Addr().Is4() {
		return o, fmt.Errorf("ServiceCIDR %q: want an IPv4 prefix such as 127.77.0.0/16", o.ServiceCIDR)
	}
	return o, nil
}
