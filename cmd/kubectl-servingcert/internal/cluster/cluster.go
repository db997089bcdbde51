// Package cluster reads the state that kubectl-servingcert reports from a cluster. It
// changes nothing.
package cluster

import (
	"fmt"
	"os"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is an API server, with the permissions of one user.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string // the context's; "default" if it has none
	Clock     *Clock // the API server's
}

// Connect returns the cluster and user that kubectl's flags select. It sends no request.
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

// Config returns the client configuration that kubectl's flags select.
func Config(flags genericclioptions.RESTClientGetter) (*rest.Config, error) {
	cfg, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w", err)
	}
	// API Priority and Fairness limits clients. A client-side limit would replace the errors of expired
	// contexts with its own.
	cfg.QPS = -1
	cfg.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true}) // as in kubectl
	return cfg, nil
}
