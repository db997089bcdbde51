//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// fetchesFromHost fails the test unless this machine, which is the node, accepts the server's certificate
// for its name in the cluster's DNS.
func (c *cluster) fetchesFromHost(t *testing.T, s server, path string) {
	t.Helper()
	if c.machine == nil {
		return
	}
	eventually(t, propagating, "fetch from the host", func(ctx context.Context) error {
		leaf, err := c.currentLeaf(ctx, s.namespace, s.service)
		if err != nil {
			return err
		}
		got, err := c.fetchFromHost(ctx, s, path)
		if err == nil && got != leaf {
			err = fmt.Errorf("the server serves leaf %s; want %s", got, leaf)
		}
		return err
	})
}

func (c *cluster) fetchFromHost(ctx context.Context, s server, path string) (leaf string, err error) {
	bundle := &corev1.ConfigMap{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: api.BundleName}, bundle); err != nil {
		return "", err
	}
	return c.fetchTrusting(ctx, s, path, []byte(bundle.Data[api.BundleKey]))
}

// fetchTrusting fetches a path of the server from this machine, trusting only these certificates.
func (c *cluster) fetchTrusting(ctx context.Context, s server, path string, trusted []byte) (leaf string, err error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.machine.Dialer().DialContext(ctx, network, s.target().Address)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", s.url(path), response.Status)
	}
	return pki.Fingerprint(response.TLS.PeerCertificates[0]), errors.Join(err, response.Body.Close())
}
