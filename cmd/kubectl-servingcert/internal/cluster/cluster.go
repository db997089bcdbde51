// Package cluster reads from a cluster what kubectl-servingcert judges. It changes
// nothing.
package cluster

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

// Cluster is an API server, with the rights of one user.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string // the context's; "default" if it has none
}

// Limits on the requests of one run: a list takes a request for every 500 objects.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Connect returns the cluster that kubectl's flags name, as the user that they name. It
// sends no request.
func Connect(flags genericclioptions.RESTClientGetter) (*Cluster, error) {
	cfg, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = queriesPerSecond, burst
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	return &Cluster{client, namespace}, nil
}
