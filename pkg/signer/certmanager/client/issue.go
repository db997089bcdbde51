package client

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// Issue has the issuer sign a certificate for the Secret. It creates one request, and returns an
// *issue.PendingError until that is answered. Other errors are a *remote.Error, an
// *issue.RefusedError, or that of ctx.
func (c *Client) Issue(ctx context.Context, secret types.NamespacedName, ca *pki.Authority, wanted api.Wanted, now time.Time) (issue.Issued, error) {
	request := issue.NewRequest(ca, wanted, now)
	if err := ca.MaySign(request.NotAfter); err != nil {
		return issue.Issued{}, err
	}
	w := c.wish(certmanager.NameOf(c.config.Issuer, secret.String(), wanted), secret.String(), request)
	answer, err := c.answer(ctx, w.Name)
	if err != nil {
		return issue.Issued{}, err
	}
	if answer == nil {
		c.replaces(ctx, secret.String(), w.Name)
		return issue.Issued{}, c.ask(ctx, w, secret.Namespace, now)
	}
	if answer.Waits != "" {
		return issue.Issued{}, answer.Pending(now)
	}
	key, err := c.key(ctx, w.Name)
	if err != nil {
		return issue.Issued{}, err
	}
	if key == nil {
		return issue.Issued{}, errors.Join(remote.NewError(issue.ReasonCAAnswer, "the key of the signed certificate is missing: another certificate is requested"), c.forget(ctx, w.Name))
	}
	issued, err := issue.ForKey(ctx, c.signed(answer), ca, key, request, wanted, now)
	if err != nil {
		return issue.Issued{}, errors.Join(err, c.ofNoUse(ctx, w.Name, answer, err, now))
	}
	issued.Stored = func(ctx context.Context) {
		if err := c.forget(ctx, w.Name); err != nil {
			c.use(w.Name)
			ctrl.LoggerFrom(ctx).Info("cannot delete a completed CertificateRequest", "request", w.Name, "error", err.Error())
		}
	}
	return issued, nil
}

// Sign is an issue.Sign for keys that other parties hold. The names must be in the CSR.
func (c *Client) Sign(ctx context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
	pub, err := checkCSR(request)
	if err != nil {
		return nil, err
	}
	sum, now := sha256.Sum256(request.CSR), c.config.Clock()
	wanted := api.Wanted{DNSNames: request.DNSNames, IPs: request.IPs}
	w := c.wish(certmanager.NameOf(c.config.Issuer, hex.EncodeToString(sum[:]), wanted), certmanager.ForCSR+request.Tenant, request)
	answer, err := c.answer(ctx, w.Name)
	switch {
	case err != nil:
		return nil, err
	case answer == nil:
		return nil, c.send(ctx, w, request.Tenant, now)
	case answer.Waits != "":
		return nil, answer.Pending(now)
	}
	leaf, err := answer.SignedBy(ca)
	if err == nil {
		err = issue.Check(leaf, pub, ca, request, now)
	}
	if err != nil {
		return nil, errors.Join(err, c.ofNoUse(ctx, w.Name, answer, err, now))
	}
	return leaf, c.forget(ctx, w.Name)
}

// checkCSR returns the key of the CSR, or an error if an issuer would not sign the request.
func checkCSR(request issue.SigningRequest) (crypto.PublicKey, error) {
	csr, err := issue.DecodeCSR(request.CSR)
	if err != nil {
		return nil, err
	}
	dns, ips := pki.NamesOf(&x509.Certificate{DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses})
	if !slices.Equal(dns, request.DNSNames) || !slices.Equal(ips, request.IPs) {
		return nil, remote.NewError(issue.ReasonCARefused, "a cert-manager issuer takes the names from the CSR, which has %q %v: must have %q %v; cert-manager cannot sign PodCertificateRequests", dns, ips, request.DNSNames, request.IPs)
	}
	return csr.PublicKey, nil
}

// wish returns the content of a request, without the CSR if the key is not yet generated.
func (c *Client) wish(name, whose string, request issue.SigningRequest) certmanager.Wish {
	return certmanager.Wish{
		Namespace: c.config.Namespace, Name: name, Instance: c.config.Instance,
		For: whose, Issuer: c.config.Issuer, SigningRequest: request,
	}
}

// signed returns an issue.Sign that returns the leaf of the answer.
func (c *Client) signed(answer *certmanager.Answer) issue.Sign {
	return func(_ context.Context, ca *pki.Authority, _ issue.SigningRequest) (*x509.Certificate, error) {
		return answer.SignedBy(ca)
	}
}

// answer returns the result of a request, nil if the request does not exist.
func (c *Client) answer(ctx context.Context, name string) (*certmanager.Answer, error) {
	c.mu.Lock()
	p := c.pending[name]
	none, used := p == nil && c.swept, p != nil && p.used
	c.mu.Unlock()
	switch {
	case none:
		return nil, nil
	case used: // the next certificate must have another key
		return nil, c.forget(ctx, name)
	}
	r, err := c.get(ctx, name)
	if err != nil || r == nil {
		return nil, err
	}
	c.note(name, r.Tenant(), c.config.Clock())
	answer := r.Answer()
	return &answer, nil
}

// ask generates the key for a request, unless it is stored, and sends the request.
func (c *Client) ask(ctx context.Context, w certmanager.Wish, tenant string, now time.Time) error {
	if err := c.admit(w.Name, tenant, now); err != nil {
		return err
	}
	c.own(w.For, w.Name)
	key, err := c.keep(ctx, w.Name, w.For, w.KeyAlgorithm)
	if err != nil {
		return err
	}
	if w.CSR, err = certmanager.NewCSR(key, w.DNSNames, w.IPs); err != nil {
		return err
	}
	return c.send(ctx, w, tenant, now)
}

// send creates the request, and returns an *issue.PendingError if that succeeds.
func (c *Client) send(ctx context.Context, w certmanager.Wish, tenant string, now time.Time) error {
	if err := c.admit(w.Name, tenant, now); err != nil {
		return err
	}
	r := w.New(now)
	if err := c.create(ctx, r); err != nil {
		return err
	}
	r.CreationTimestamp.Time = now
	return r.Answer().Pending(now)
}

// ofNoUse deletes a request with an unusable answer once it is Spent, so that the next attempt
// creates another. It keeps a certificate of the next CA, which is usable once clients trust it.
func (c *Client) ofNoUse(ctx context.Context, name string, answer *certmanager.Answer, why error, now time.Time) error {
	if remoteErr, ok := errors.AsType[*remote.Error](why); ok && remoteErr.Has(issue.ReasonCAChanged) {
		c.mu.Lock()
		next := c.issuer != nil && answer.Leaf.CheckSignatureFrom(c.issuer) == nil
		if !next {
			c.doubted = now
		}
		c.mu.Unlock()
		if next {
			return nil
		}
	}
	if !answer.Spent(now) {
		return nil
	}
	return c.forget(ctx, name)
}
