//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	metricsAPI = "v1beta1.metrics.k8s.io"
	// kubeletCA is an argument of metrics-server in metrics.yaml.
	kubeletCA = "--kubelet-certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// metricsScene: kube-apiserver is the client.
func metricsScene() *scene {
	metrics := server{namespace: "e2e-metrics", service: "metrics-server", secret: "metrics-server-tls", port: 10250, reloads: true}
	s := &scene{
		name: "metrics", about: "the real metrics-server behind the aggregation layer", manifest: "metrics.yaml",
		servers: []server{metrics},
		leftOut: func(c *cluster) string {
			if err := c.admin.Get(context.Background(), client.ObjectKey{Name: metricsAPI}, &apiregistrationv1.APIService{}); err != nil {
				return "" // it does not exist; the scene itself reports other errors
			}
			return "the cluster has its own metrics-server"
		},
		renewed:   func(t *testing.T, c *cluster, _ before) { c.tops(t) },
		succeeded: func(t *testing.T, c *cluster) { c.tops(t) },
	}
	s.up = func(t *testing.T, c *cluster) {
		if c.machine == nil {
			// The kubelets may have self-signed certificates.
			c.apply(t, s.manifest, kubeletCA, "--kubelet-insecure-tls")
			s.note("metrics-server does not verify the kubelets")
		}
		c.starts(t, metrics, "/healthz", "ok")
		c.wasGiven(t, metrics, given{parts: "files,env,flags,probes", flags: twoFlags})
		c.tops(t)
	}
	return s
}

// tops fails the test unless kubectl top works, through a kube-apiserver that verifies metrics-server with
// the caBundle of its APIService.
func (c *cluster) tops(t *testing.T) {
	t.Helper()
	eventually(t, starting, "kubectl top", func(ctx context.Context) error {
		for _, args := range [][]string{{"top", "nodes", "--no-headers"}, {"top", "pods", "--no-headers", "-A"}} {
			out, err := c.run(ctx, c.tools.kubectl, args...)
			if err != nil {
				return err
			}
			if len(strings.Fields(out)) < 4 {
				return fmt.Errorf("kubectl %s: %q", strings.Join(args, " "), out)
			}
		}
		return nil
	})
	api := &apiregistrationv1.APIService{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Name: metricsAPI}, api))
	if api.Spec.InsecureSkipTLSVerify || len(api.Spec.CABundle) == 0 {
		t.Fatal(errors.New("kube-apiserver does not verify metrics-server: its APIService has no caBundle, or sets insecureSkipTLSVerify"))
	}
}
