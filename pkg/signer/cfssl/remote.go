package cfssl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudflare/cfssl/auth"
	"github.com/cloudflare/cfssl/info"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// Defaults of RemoteConfig.
const (
	DefaultTimeout = 10 * time.Second
	DefaultProfile = "serving"
	// minAuthKey is the least number of bytes of the HMAC key.
	minAuthKey = 32
)

// RemoteConfig configures a Remote.
type RemoteConfig struct {
	// URLs of the servers, https, without /api/v1/cfssl, in the order of preference.
	URLs []string
	// ServerCAs verify the servers' TLS certificates; nil: the system's roots.
	ServerCAs *x509.CertPool
	// ClientCertificate, if not nil, returns the client certificate for each handshake.
	ClientCertificate func() (*tls.Certificate, error)
	// AuthKey is the key of the HMAC that each request carries (cfssl's auth_keys,
	// type "standard"), decoded.
	AuthKey []byte
	// Profile and ProfileRSA name the servers' profiles for leaves with a key that can only
	// sign, and for leaves with an RSA key, whose usages include key encipherment.
	Profile, ProfileRSA string
	// Label names the CA on a server that has several; may be empty.
	Label string
	// Timeout is for one request to one server.
	Timeout time.Duration
	// Bundle holds the root that clients trust and the certificates between it and the CA. If it
	// is empty, the CA must be a root, and its certificate is taken from the servers.
	Bundle []*x509.Certificate
	Clock  func() time.Time
}

// Validate returns an error that names the flag whose value is invalid.
func (c RemoteConfig) Validate() error {
	if len(c.URLs) == 0 {
		return errors.New("--cfssl-url: must name at least one server")
	}
	for i, url := range c.URLs {
		if _, err := serverURL(url); err != nil {
			return fmt.Errorf("--cfssl-url: %w", err)
		}
		if slices.Contains(c.URLs[:i], url) {
			return fmt.Errorf("--cfssl-url: %q: given twice", url)
		}
	}
	switch {
	case len(c.AuthKey) < minAuthKey:
		return fmt.Errorf("--cfssl-auth-key-file: the key has %d bytes, must have at least %d", len(c.AuthKey), minAuthKey)
	case c.Profile == "":
		return errors.New("--cfssl-profile: must not be empty: servers would use their default profile")
	case c.ProfileRSA == "":
		return errors.New("--cfssl-profile-rsa: must not be empty: servers would use their default profile")
	case c.Timeout <= 0:
		return fmt.Errorf("--cfssl-timeout: %q: must be positive", c.Timeout)
	case len(c.Bundle) > 0 && !slices.ContainsFunc(c.Bundle, remote.SelfSigned):
		return errors.New("--cfssl-bundle: has no root: must contain a self-signed CA certificate, for clients to trust")
	}
	return nil
}

// ParseAuthKey parses an HMAC key in the format of cfssl's configuration: at least 32 bytes in
// hex, with optional white space around it. Errors never contain any part of it.
func ParseAuthKey(data []byte) ([]byte, error) {
	text := bytes.TrimSpace(data)
	key := make([]byte, hex.DecodedLen(len(text)))
	if n, err := hex.Decode(key, text); err != nil || n < minAuthKey {
		return nil, fmt.Errorf("must be the key in hex, as in auth_keys of the servers' configuration: at least %d digits and nothing else", hex.EncodedLen(minAuthKey))
	}
	return key, nil
}

// Remote is a CA whose key is on cfssl servers (cfssl serve, multirootca), which sign requests
// that have a valid HMAC. Their answers are not trusted: issue.Issue checks them.
type Remote struct {
	config  RemoteConfig
	auth    auth.Provider
	servers []*server
}

// NewRemote returns the CA. It sends no request.
func NewRemote(cfg RemoteConfig) (*Remote, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// In hex, since cfssl would take some texts for the name of a variable or file.
	provider, err := auth.New(hex.EncodeToString(cfg.AuthKey), nil)
	if err != nil {
		return nil, fmt.Errorf("--cfssl-auth-key-file: %w", err)
	}
	r := &Remote{config: cfg, auth: provider}
	client := newHTTPClient(cfg)
	for _, raw := range cfg.URLs {
		base, err := serverURL(raw)
		if err != nil {
			return nil, fmt.Errorf("--cfssl-url: %w", err)
		}
		r.servers = append(r.servers, &server{name: raw, base: base, client: client, timeout: cfg.Timeout})
	}
	return r, nil
}

// Sign has a server sign the request. It is an issue.Sign: ca is the CA that clients trust, and
// has no key. Errors are an *Error, or that of ctx.
func (r *Remote) Sign(ctx context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
	wire := cfsslRequest(request)
	wire.Profile, wire.Label = r.config.Profile, r.config.Label
	if request.KeyAlgorithm.IsRSA() {
		wire.Profile = r.config.ProfileRSA
	}
	inner, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode signing request: %w", err)
	}
	token, err := r.auth.Token(inner)
	if err != nil {
		return nil, fmt.Errorf("authenticate signing request: %w", err)
	}
	body, err := json.Marshal(auth.AuthenticatedRequest{Timestamp: r.config.Clock().Unix(), Token: token, Request: inner})
	if err != nil {
		return nil, fmt.Errorf("encode signing request: %w", err)
	}
	var leaf *x509.Certificate
	_, err = r.ask(ctx, "authsign", body, func(result json.RawMessage) *Error {
		var answer info.Resp // authsign sets only the certificate
		cert, err := readCertificate(result, &answer)
		if err != nil {
			return err
		}
		if cert.CheckSignatureFrom(ca.Certificate) != nil {
			return remote.NewError(issue.ReasonCAChanged, "signed with CA %q, but clients trust CA %q", cert.Issuer, ca.Certificate.Subject)
		}
		leaf = cert
		return nil
	})
	return leaf, err
}

// readCertificate decodes the result of a request into answer, and returns its first
// certificate.
func readCertificate(result json.RawMessage, answer *info.Resp) (*x509.Certificate, *Error) {
	if err := json.Unmarshal(result, answer); err != nil {
		return nil, remote.NewError(issue.ReasonCAAnswer, "the answer is not a certificate: %v", err)
	}
	certs, err := pki.ParseCertificates([]byte(answer.Certificate))
	if err != nil {
		return nil, remote.NewError(issue.ReasonCAAnswer, "the answer is not a certificate: %v", err)
	}
	return certs[0], nil
}

// Available returns nil if a request may be sent to one of the servers. Otherwise it returns the
// error that Sign would return at once, because each server has just failed.
func (r *Remote) Available() error {
	now := r.config.Clock()
	var errs []*Error
	for _, s := range r.servers {
		err := s.breaker.Resting(now)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return remote.Join(errs)
}

// ask posts body to the servers in turn until read accepts the answer of one, and returns that
// server's name. It stops at a server that refuses, since the others have the same policy. Each
// server has a Breaker.
func (r *Remote) ask(ctx context.Context, endpoint string, body []byte, read func(json.RawMessage) *Error) (string, error) {
	var errs []*Error
	for _, s := range r.servers {
		asked := r.config.Clock()
		if err := s.breaker.Allow(asked, s.timeout); err != nil {
			errs = append(errs, err)
			continue
		}
		result, err := s.post(ctx, endpoint, body)
		if err == nil {
			err = read(result)
		}
		if ctx.Err() != nil && err != nil {
			s.breaker.Abandoned(r.config.Clock())
			return "", ctx.Err()
		}
		if err != nil {
			err = err.At(s.name)
		}
		if err != nil && err.Broken() {
			s.breaker.Failed(asked, r.config.Clock(), err, rand.Float64())
		} else {
			s.breaker.Answered()
		}
		switch {
		case err == nil:
			return s.name, nil
		case err.Has(issue.ReasonCARefused):
			return "", err
		}
		errs = append(errs, err)
	}
	return "", remote.Join(errs)
}
