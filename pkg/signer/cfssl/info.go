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

// RemoteInfo is what a server says about the CA.
type RemoteInfo struct {
	Server string            // the URL of the one that said it
	Issuer *x509.Certificate // signs leaves
	// Chain is what is to be served after a leaf: empty under a root, else Issuer
	// and what is between it and Root.
	Chain []*x509.Certificate
	Root  *x509.Certificate // what a client must trust
	// Warnings say, a line each, what will keep certificates from being good.
	Warnings []string
}

// Info asks what the CA's certificate is now. Errors are a *Error, or ctx's.
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

// hasUsages reports whether a profile with these usages signs what is asked of
// it, and what they must be.
func hasUsages(usages []string, algorithm pki.KeyAlgorithm) (ok bool, want []string) {
	want = []string{"digital signature", "server auth"}
	if algorithm.IsRSA() {
		want = append(want, "key encipherment")
	}
	key, ext, unknown := (&config.SigningProfile{Usage: usages}).Usages()
	wantKey, wantExt, _ := (&config.SigningProfile{Usage: want}).Usages()
	return key == wantKey && slices.Equal(ext, wantExt) && len(unknown) == 0, want
}
