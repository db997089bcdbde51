package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

const url = "https://web.shop.svc/"

// seen is what a client saw of the server.
type seen struct {
	leaf *x509.Certificate
	body string
}

func (d *demo) fetch(ctx context.Context) error {
	var err error
	if _, err = d.get(ctx, nil); err == nil {
		return errors.New("a client without the bundle trusted the server")
	}
	d.out.printf("without the bundle: %v\n", errors.Unwrap(err))
	if d.first, err = d.getTrusting(ctx); err != nil {
		return err
	}
	d.show(d.first)
	return d.sameProcess(d.first)
}

func (d *demo) fetchAgain(ctx context.Context) error {
	var err error
	if d.second, err = d.getTrusting(ctx); err != nil {
		return err
	}
	d.show(d.second)
	if err := d.sameProcess(d.second); err != nil {
		return err
	}
	if d.first.leaf.SerialNumber.Cmp(d.second.leaf.SerialNumber) == 0 {
		return fmt.Errorf("the server still serves certificate %x", d.first.leaf.SerialNumber)
	}
	if string(d.first.leaf.RawSubjectPublicKeyInfo) == string(d.second.leaf.RawSubjectPublicKeyInfo) {
		return errors.New("the renewed certificate has the old key")
	}
	if fingerprint, _ := state.LeafOf(d.service); fingerprint != pki.Fingerprint(d.second.leaf) {
		return fmt.Errorf("the condition names leaf %s, and the server serves %s", fingerprint, pki.Fingerprint(d.second.leaf))
	}
	d.out.printf("another serial, another key, the leaf that the condition names, and the same process %d\n", d.server.PID())
	return nil
}

// getTrusting fetches as a client does that has the namespace's bundle and
// nothing else.
func (d *demo) getTrusting(ctx context.Context) (seen, error) {
	cm := &corev1.ConfigMap{}
	if err := d.Admin.Get(ctx, inShop(api.BundleName), cm); err != nil {
		return seen{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(cm.Data[api.BundleKey])) {
		return seen{}, fmt.Errorf("no certificate in ConfigMap shop/%s", api.BundleName)
	}
	return d.get(ctx, roots)
}

// get fetches over a connection of its own, so that there is a handshake. Where
// DNS and kube-proxy would lead the Service's name and port, its dialer leads.
func (d *demo) get(ctx context.Context, roots *x509.CertPool) (seen, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "web.shop.svc:443" {
				return nil, fmt.Errorf("dial %s: the demo resolves web.shop.svc:443 only", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, d.serverAddress())
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return seen{}, err
	}
	resp, err := (&http.Client{Transport: transport, Timeout: deadline}).Do(req)
	if err != nil {
		return seen{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return seen{}, err
	}
	return seen{resp.TLS.PeerCertificates[0], strings.TrimSpace(string(body))}, nil
}

func (d *demo) show(s seen) {
	d.out.printf("GET %s: %q\n", url, s.body)
	d.out.printf("  names   %s\n", strings.Join(s.leaf.DNSNames, ", "))
	d.out.printf("  serial  %x\n", s.leaf.SerialNumber)
	d.out.printf("  issuer  %s\n", s.leaf.Issuer)
	d.out.printf("  valid   %s to %s, renewed by itself at %s\n",
		s.leaf.NotBefore.Format(time.RFC3339), s.leaf.NotAfter.Format(time.RFC3339), pki.RenewAt(s.leaf).Format(time.RFC3339))
}

// sameProcess checks that it is the container that answered.
func (d *demo) sameProcess(s seen) error {
	if want := fmt.Sprintf("hello from process %d", d.server.PID()); s.body != want {
		return fmt.Errorf("the answer is %q, want %q", s.body, want)
	}
	return nil
}
