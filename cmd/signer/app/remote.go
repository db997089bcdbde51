package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// remoteFlagPrefix is the prefix of the flags of a remote CA.
const remoteFlagPrefix = "cfssl-"

// remoteFlags are the flags of a remote CA; docs/remote-ca.md.
type remoteFlags struct {
	urls                  []string
	serverCAs             string // a file, as the fields below
	authKey               string
	bundle                string
	clientCert, clientKey string
	profile, profileRSA   string
	label                 string
	timeout               time.Duration

	given       func() []string                // returns the names of the flags that were set
	systemRoots func() (*x509.CertPool, error) // the default of --cfssl-ca
	config      cfssl.RemoteConfig
}

func (f *remoteFlags) register(fs *pflag.FlagSet) {
	f.profile, f.timeout, f.systemRoots = cfssl.DefaultProfile, cfssl.DefaultTimeout, x509.SystemCertPool
	fs.StringSliceVar(&f.urls, "cfssl-url", nil, "https://HOST[:PORT] of a remote CA, a cfssl server that signs instead of this signer's CA; may be given several times or comma-separated: if a server fails, the next one is tried")
	fs.StringVar(&f.serverCAs, "cfssl-ca", "", "file with the CA certificates that verify the servers' TLS certificates; required if the system has none, as in the signer's image (default: the system's)")
	fs.StringVar(&f.authKey, "cfssl-auth-key-file", "", "file with the key that authenticates requests: at least 64 hex digits, as in auth_keys of the servers' configuration; required with --cfssl-url")
	fs.StringVar(&f.clientCert, "cfssl-client-cert", "", "file with a client certificate for the servers, followed by its intermediates")
	fs.StringVar(&f.clientKey, "cfssl-client-key", "", "file with the key of --cfssl-client-cert")
	fs.StringVar(&f.profile, "cfssl-profile", f.profile, "the servers' profile for ECDSA and Ed25519 keys, with usages digital signature and server auth")
	fs.StringVar(&f.profileRSA, "cfssl-profile-rsa", "", "the servers' profile for RSA keys, with usages digital signature, key encipherment and server auth (default: --cfssl-profile with -rsa appended)")
	fs.StringVar(&f.label, "cfssl-label", "", "label of the CA, for servers with several CAs (default: the server's)")
	fs.DurationVar(&f.timeout, "cfssl-timeout", f.timeout, "timeout of one request to one server")
	fs.StringVar(&f.bundle, "cfssl-bundle", "", "file with the root that clients must trust and the intermediates between it and the CA; without it, the CA must be a root, and the one that the servers return is trusted")
	f.given = func() []string {
		var names []string
		fs.Visit(func(flag *pflag.Flag) {
			if strings.HasPrefix(flag.Name, remoteFlagPrefix) {
				names = append(names, flag.Name)
			}
		})
		return names
	}
}

// enabled reports whether the CA is remote.
func (f *remoteFlags) enabled() bool { return len(f.urls) > 0 }

// validate checks the flags and reads the files. If the CA is remote, config is complete afterwards.
func (f *remoteFlags) validate(clock func() time.Time) error {
	if !f.enabled() {
		switch given := f.given(); {
		case slices.Contains(given, "cfssl-url"):
			return f.config.Validate() // an empty --cfssl-url is an error
		case len(given) > 0:
			return fmt.Errorf("--%s: requires --cfssl-url", given[0])
		}
		return nil
	}
	if f.profileRSA == "" && f.profile != "" {
		f.profileRSA = f.profile + "-rsa"
	}
	f.config = cfssl.RemoteConfig{
		URLs: f.urls, Profile: f.profile, ProfileRSA: f.profileRSA, Label: f.label, Timeout: f.timeout, Clock: clock,
	}
	for _, read := range []func() error{f.readAuthKey, f.readServerCAs, f.readBundle, f.readClientCertificate} {
		if err := read(); err != nil {
			return err
		}
	}
	return f.config.Validate()
}

func (f *remoteFlags) readAuthKey() error {
	if f.authKey == "" {
		return errors.New("--cfssl-auth-key-file: required with --cfssl-url: a server must not sign unauthenticated requests")
	}
	data, err := os.ReadFile(f.authKey)
	if err != nil {
		return fmt.Errorf("--cfssl-auth-key-file: %w", err)
	}
	if f.config.AuthKey, err = cfssl.ParseAuthKey(data); err != nil {
		return fmt.Errorf("--cfssl-auth-key-file: %s: %w", f.authKey, err)
	}
	return nil
}

func (f *remoteFlags) readServerCAs() error {
	if f.serverCAs == "" {
		return f.checkSystemRoots()
	}
	certs, err := readCertificates("--cfssl-ca", f.serverCAs)
	if err != nil {
		return err
	}
	f.config.ServerCAs = x509.NewCertPool()
	for _, c := range certs {
		f.config.ServerCAs.AddCert(c)
	}
	return nil
}

// checkSystemRoots returns an error if the system has no roots, as in an image that only holds the
// program: otherwise the first request would fail.
func (f *remoteFlags) checkSystemRoots() error {
	const missing = "--cfssl-ca: required: the TLS certificates of the servers of --cfssl-url cannot be verified, because the system has no root certificates (the signer's image has none): " +
		"mount a file with the CA that signed them"
	switch roots, err := f.systemRoots(); {
	case err != nil:
		return fmt.Errorf("%s: %w", missing, err)
	case roots.Equal(x509.NewCertPool()):
		return errors.New(missing)
	}
	return nil
}

func (f *remoteFlags) readBundle() (err error) {
	if f.bundle != "" {
		f.config.Bundle, err = readCertificates("--cfssl-bundle", f.bundle)
	}
	return err
}

// readClientCertificate reads the pair once, to validate it. Each connection reads it again: it is
// renewed more often than this process starts.
func (f *remoteFlags) readClientCertificate() error {
	switch {
	case f.clientCert == "" && f.clientKey == "":
		return nil
	case f.clientCert == "":
		return errors.New("--cfssl-client-cert: requires --cfssl-client-key")
	case f.clientKey == "":
		return errors.New("--cfssl-client-key: requires --cfssl-client-cert")
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.clientCert, f.clientKey)
		if err != nil {
			return nil, fmt.Errorf("--cfssl-client-cert, --cfssl-client-key: %w", err)
		}
		return &pair, nil
	}
	f.config.ClientCertificate = load
	_, err := load()
	return err
}

// signing holds the functions that sign.
type signing struct {
	sign issue.Sign
	// issue signs with a CA that may be slow to answer; nil: use sign.
	issue func(context.Context, types.NamespacedName, *pki.Authority, api.Wanted, time.Time) (issue.Issued, error)
	// available returns the reason why sign would fail at once; nil: it never does.
	available func(*pki.Authority) error
	// candidate returns the remote CA, as it was at the time or later; nil: there is no remote CA.
	candidate func(context.Context, time.Time) (ca.Candidate, error)
}

// whileRemote limits available to a CA whose key is not local.
func whileRemote(available func() error) func(*pki.Authority) error {
	return func(ca *pki.Authority) error {
		if ca.Key != nil {
			return nil
		}
		return available()
	}
}

// signer returns the signing of the configured CA.
func (c *Config) signer(mgr manager.Manager) (signing, error) {
	local, err := cfssl.NewLocal()
	switch {
	case err != nil:
		return signing{}, err
	case c.Issuer.enabled():
		return c.issuerSigner(mgr, local)
	case c.Remote.enabled():
		return c.Remote.signer(local)
	}
	return signing{sign: local}, nil
}

// signer returns the signing of the cfssl servers.
func (f *remoteFlags) signer(local issue.Sign) (signing, error) {
	remote, err := cfssl.NewRemote(f.config)
	if err != nil {
		return signing{}, err
	}
	logged := "" // the last warnings, so that they are logged once
	return signing{sign: byKey(local, remote.Sign), available: whileRemote(remote.Available), candidate: func(ctx context.Context, _ time.Time) (ca.Candidate, error) {
		info, err := remote.Info(ctx)
		if err != nil {
			return ca.Candidate{}, err
		}
		last := logged
		if logged = strings.Join(info.Warnings, "; "); logged != last && logged != "" {
			ctrl.Log.WithName("cfssl").Info("the remote CA will refuse some requests", "server", info.Server, "warnings", logged)
		}
		return ca.NewCandidate(ca.OriginRemote, info.Chain, info.Root, nil), nil
	}}, nil
}

// byKey signs with the CA's key if it is local, and otherwise with the remote CA. A local CA signs
// until the remote one is trusted.
func byKey(local, remote issue.Sign) issue.Sign {
	return func(ctx context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		if ca.Key != nil {
			return local(ctx, ca, request)
		}
		return remote(ctx, ca, request)
	}
}

func readCertificates(flag, file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, file, err)
	}
	return certs, nil
}
