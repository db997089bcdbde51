package controlplane

import "io"

// Options describes a control plane. The zero value suits most tests.
type Options struct {
	// ControllerManager also runs kube-controller-manager: Deployments get pods, garbage is
	// collected, and deleted namespaces are removed.
	ControllerManager bool
	// ApprovedRequests makes kube-controller-manager sign approved CertificateSigningRequests
	// for Kubernetes' own signers, with the CA of the control plane.
	ApprovedRequests bool

	// Dir is the directory of data, keys and logs. It must be empty, and is created if it
	// does not exist. Default: a new temporary directory.
	Dir string

	// Features are enabled if kube-apiserver is new enough. Others have the default of its version.
	Features []Feature
	// Without are the features that are disabled.
	Without []Feature

	// ExtraAPIServerArgs follow the other flags of kube-apiserver, and override them.
	ExtraAPIServerArgs []string

	// EtcdDir is the data directory of etcd. It must not exist, and its parent must.
	// Default: a directory in Dir.
	EtcdDir string

	// EtcdVia is called once with etcd's HOST:PORT, and returns the address of a proxy through
	// which kube-apiserver connects to it. Default: no proxy.
	EtcdVia func(address string) (string, error)

	// AuditUsers are the users whose requests kube-apiserver logs, without content, for
	// AuditEvents. Default: none.
	AuditUsers []string

	// Log receives the progress of building the binaries. Default: os.Stderr.
	Log io.Writer
}
