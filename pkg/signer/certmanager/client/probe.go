package client

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// firstAnswer is how long a call of CA waits for the first certificate of an issuer: nothing can
// be signed before, and the next call is a minute later.
const firstAnswer = 5 * time.Second

// CA returns the root that clients must trust for the issuer's CA, and the chain to serve after
// its leaves. It determines the CA by a probe, once a day, and again if since is later. Errors are
// those of Issue.
func (c *Client) CA(ctx context.Context, since time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	for end := c.config.Clock().Add(firstAnswer); ; {
		chain, root, err = c.ca(ctx, since)
		pending := issue.Waiting(err)
		if pending == nil || c.config.Clock().Add(pending.Again).After(end) {
			return chain, root, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pending.Again):
		}
	}
}

func (c *Client) ca(ctx context.Context, since time.Time) (chain []*x509.Certificate, root *x509.Certificate, err error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	var probes []*certmanager.Request
	for _, r := range all {
		if r.IsProbe() {
			probes = append(probes, r)
		}
	}
	c.mu.Lock()
	doubted := c.doubted
	c.mu.Unlock()
	now := c.config.Clock()
	p := certmanager.Probe(probes, c.config.Issuer, since, doubted, now)
	for _, r := range p.Delete {
		if err := c.delete(ctx, r.Name); err != nil {
			return nil, nil, err
		}
	}
	if p.Ask {
		if err := c.probe(ctx, now); err != nil && p.Known == nil {
			return nil, nil, err
		}
	}
	if p.Known == nil {
		return nil, nil, p.Err
	}
	trusted, err := c.roots(ctx)
	if err != nil {
		return nil, nil, err
	}
	chain, root, err = p.Known.Answer().Anchor(trusted, RootsFlag, now)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.issuer = root; len(chain) > 0 {
		c.issuer = chain[0]
	}
	return chain, root, nil
}

// probe creates a probe.
func (c *Client) probe(ctx context.Context, now time.Time) error {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return fmt.Errorf("generate key: %w", err)
	}
	w := c.wish(certmanager.ProbeName(now), "probe", issue.SigningRequest{
		DNSNames: []string{"servingcert-probe." + c.config.Namespace + ".svc"}, KeyAlgorithm: pki.ECDSAP256,
		NotAfter: now.Add(c.config.ProbeDuration),
	})
	w.Probe = true
	if w.CSR, err = certmanager.NewCSR(key, w.DNSNames, nil); err != nil {
		return err
	}
	return c.create(ctx, w.New(now))
}

// roots reads the certificates in the ConfigMap Config.Roots, nil if there is none.
func (c *Client) roots(ctx context.Context) ([]*x509.Certificate, error) {
	if c.config.Roots == "" {
		return nil, nil
	}
	var configMap corev1.ConfigMap
	wrong := func(format string, args ...any) error {
		return remote.NewError(issue.ReasonCAUntrusted, "%s: ConfigMap %s/%s %s", RootsFlag, c.config.Namespace, c.config.Roots, fmt.Sprintf(format, args...))
	}
	err := c.call(ctx, func(ctx context.Context) error {
		err := c.config.Live.Get(ctx, client.ObjectKey{Namespace: c.config.Namespace, Name: c.config.Roots}, &configMap)
		if apierrors.IsNotFound(err) {
			return wrong("does not exist")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates([]byte(configMap.Data[api.BundleKey]))
	if err != nil {
		return nil, wrong("key %s: %v", api.BundleKey, err)
	}
	return certs, nil
}
