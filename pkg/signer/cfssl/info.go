package cfssl

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cloudflare/cfssl/config"
	"github.com/cloudflare/cfssl/info"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// RemoteInfo is a server's information about the CA.
type RemoteInfo struct {
	Server string            // URL of the server
	Issuer *x509.Certificate // signs leaves
	// Chain is the chain to serve after a leaf: empty if Issuer is a root, otherwise Issuer
	// and the certificates between it and Root.
	Chain []*x509.Certificate
	Root  *x509.Certificate // clients must trust it
	// Warnings are the reasons why certificates will be refused, a line each.
	Warnings []string
}

// Info requests the CA's current certificate. Errors are an *Error, or that of ctx.
func (r *Remote) Info(ctx context.Context) (RemoteInfo, error) {
	out := RemoteInfo{}
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.RSA2048} {
		profile := r.config.Profile
		if algorithm.IsRSA() {
			profile = r.config.ProfileRSA
		}
		server, issuer, answer, err := r.info(ctx, profile)
		if err != nil {
			return RemoteInfo{}, err
		}
		switch {
		case out.Issuer == nil:
			out.Server, out.Issuer = server, issuer
		case !issuer.Equal(out.Issuer):
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: profile %q signs with CA %q and profile %q with CA %q: must be the same CA", server, profile, issuer.Subject, r.config.Profile, out.Issuer.Subject))
		}
		if ok, want := hasUsages(answer.Usage, algorithm); !ok {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: profile %q has usages %.200q, must have %q: its certificates are refused", server, profile, answer.Usage, want))
		}
	}
	var err error
	out.Chain, out.Root, err = remote.Anchor(out.Issuer, r.config.Bundle, "--cfssl-bundle must name a file with its root", r.config.Clock())
	if err != nil {
		return RemoteInfo{}, err
	}
	return out, nil
}

func (r *Remote) info(ctx context.Context, profile string) (server string, issuer *x509.Certificate, answer info.Resp, err error) {
	body, err := json.Marshal(info.Req{Label: r.config.Label, Profile: profile})
	if err != nil {
		return "", nil, answer, fmt.Errorf("encode info request: %w", err)
	}
	server, err = r.ask(ctx, "info", body, func(result json.RawMessage) (err *Error) {
		answer = info.Resp{}
		issuer, err = readCertificate(result, &answer)
		return err
	})
	return server, issuer, answer, err
}

// hasUsages reports whether the usages of a profile are those for the key algorithm, and returns
// the latter.
func hasUsages(usages []string, algorithm pki.KeyAlgorithm) (ok bool, want []string) {
	want = []string{"digital signature", "server auth"}
	if algorithm.IsRSA() {
		want = append(want, "key encipherment")
	}
	key, ext, unknown := (&config.SigningProfile{Usage: usages}).Usages()
	wantKey, wantExt, _ := (&config.SigningProfile{Usage: want}).Usages()
	return key == wantKey && slices.Equal(ext, wantExt) && len(unknown) == 0, want
}
