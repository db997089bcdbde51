// Package cluster reads from a cluster what kubectl-servingcert judges. It changes
// nothing.
package cluster

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
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

// Connect returns the cluster of a context of a kubeconfig; each may be "" for
// kubectl's default. It sends no request.
func Connect(kubeconfig, context string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = queriesPerSecond, burst
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	return &Cluster{client, namespace}, nil
}
