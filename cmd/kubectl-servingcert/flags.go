package main

import (
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
)

// clusterFlags say which cluster a command talks to.
type clusterFlags struct{ kubeconfig, context string }

func (f *clusterFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "path of a kubeconfig (default: $KUBECONFIG, or the one in the home directory)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig (default: its current one)")
}

func (f *clusterFlags) connect() (*cluster.Cluster, error) {
	return cluster.Connect(f.kubeconfig, f.context)
}

// systemNamespace adds the flag for where servingcert runs.
func systemNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVar(namespace, "system-namespace", api.DefaultNamespace, "namespace of servingcert itself")
}
