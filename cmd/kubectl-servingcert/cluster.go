package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/servingcert/servingcert/pkg/api"
)

// clusterFlags say which cluster a command talks to.
type clusterFlags struct{ kubeconfig, context string }

func (f *clusterFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: $KUBECONFIG, or the one in the home directory)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
}

// systemNamespace adds the flag for where servingcert runs.
func systemNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVar(namespace, "system-namespace", api.DefaultNamespace, "namespace of servingcert itself")
}

// cluster is an API server with its user's rights.
type cluster struct {
	client    kubernetes.Interface
	namespace string // the context's, "default" if it has none
}

// Requests that one run may make at once: a list is a request for each 500.
const (
	queriesPerSecond = 50
	burst            = 100
)

func (f *clusterFlags) connect() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("which cluster: %w", err)
	}
	cfg.QPS, cfg.Burst = queriesPerSecond, burst
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("which cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("which cluster: %w", err)
	}
	return &cluster{client, namespace}, nil
}
