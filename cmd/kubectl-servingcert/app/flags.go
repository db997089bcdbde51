package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// connection holds kubectl's flags for the connection to a cluster.
type connection struct{ *genericclioptions.ConfigFlags }

func newConnection() *connection {
	c := &connection{genericclioptions.NewConfigFlags(true)}
	c.CacheDir = nil // the plugin uses no discovery
	return c
}

// add adds all flags except --namespace, whose default differs between verbs.
func (c *connection) add(fs *pflag.FlagSet) {
	namespace := c.Namespace
	c.Namespace = nil
	c.AddFlags(fs)
	c.Namespace = namespace
}

// named returns an error if no cluster is configured. cli-runtime would use http://localhost:8080, an
// address that API servers no longer serve.
func (c *connection) named() error {
	loader := c.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil || len(raw.Clusters) > 0 || *c.APIServer != "" || os.Getenv("KUBERNETES_MASTER") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return nil //nolint:nilerr // cluster.Connect returns the same error
	}
	files := strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", ")
	return fmt.Errorf("load the kubeconfig: it names no cluster, or does not exist (%s): set --kubeconfig, --server or $KUBECONFIG", files)
}

// oneOrAll returns an error if -n and -A, all namespaces, are both given.
func (c *connection) oneOrAll(all bool) error {
	if all && *c.Namespace != "" {
		return usagef("-n and -A are mutually exclusive")
	}
	return nil
}

// addNamespace adds --namespace for a verb that uses the context's namespace by default.
func (c *connection) addNamespace(fs *pflag.FlagSet, about string) {
	fs.StringVarP(c.Namespace, "namespace", "n", "", about+" (default: the context's)")
}
