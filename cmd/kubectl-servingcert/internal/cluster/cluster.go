// Package cluster reads from a cluster what kubectl-servingcert judges. It changes
// nothing.
package cluster

import (
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is an API server, with the rights of one user.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string // the context's; "default" if it has none
	Clock     *Clock // the API server's
}

// Connect returns the cluster that kubectl's flags name, as the user that they name. It
// sends no request.
func Connect(flags genericclioptions.RESTClientGetter) (*Cluster, error) {
	cfg, err := Config(flags)
	if err != nil {
		return nil, err
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	cfg, clock := Dated(cfg)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	return &Cluster{client, namespace, clock}, nil
}

// Config returns how the cluster that kubectl's flags name is reached.
func Config(flags genericclioptions.RESTClientGetter) (*rest.Config, error) {
	cfg, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	// The API server gives its clients fair shares. A limit of our own would have a wait that
	// nears its end say so in words of the limiter's.
	cfg.QPS = -1
	cfg.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}) // as kubectl has it
	return cfg, nil
}
