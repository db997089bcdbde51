package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	issuerclient "github.com/servingcert/servingcert/pkg/signer/certmanager/client"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// issuerFlags are the flags of a cert-manager issuer; docs/remote-ca.md.
type issuerFlags struct {
	reference, roots string
	issuer           certmanager.Issuer
	given            func() bool // reports whether --ca-issuer was set: an empty value is an error
}

func (f *issuerFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.reference, "ca-issuer", "", "KIND/NAME[.GROUP] of a cert-manager issuer that signs instead of this signer's CA, such as ClusterIssuer/vault; an Issuer must be in --namespace. If NAME has dots, use KIND.GROUP/NAME")
	f.given = func() bool { return fs.Changed("ca-issuer") }
	fs.StringVar(&f.roots, "ca-issuer-roots", "", "ConfigMap in --namespace whose key ca.crt holds the root that clients must trust under --ca-issuer, and the intermediates between it and the CA; without it, status.ca of the issuer's CertificateRequests is trusted")
}

func (f *issuerFlags) enabled() bool { return f.reference != "" }

func (f *issuerFlags) validate(remote *remoteFlags, instance string) (err error) {
	switch {
	case f.enabled() && remote.enabled():
		return errors.New("--ca-issuer: cannot be used with --cfssl-url")
	case f.roots != "" && !f.enabled():
		return errors.New("--ca-issuer-roots: requires --ca-issuer")
	case f.roots != "" && len(validation.IsDNS1123Subdomain(f.roots)) > 0:
		return fmt.Errorf("--ca-issuer-roots: %q: must be the name of a ConfigMap", f.roots)
	case f.enabled() && len(instance) > certmanager.MaxInstance:
		return fmt.Errorf("--instance: %q: must have at most %d characters with --ca-issuer, which puts it into a longer label", instance, certmanager.MaxInstance)
	case f.given():
		if f.issuer, err = certmanager.ParseIssuer(f.reference); err != nil {
			return fmt.Errorf("--ca-issuer: %w", err)
		}
	}
	return nil
}

// issuerSigner returns the signing of a cert-manager issuer.
func (c *Config) issuerSigner(mgr manager.Manager, local issue.Sign) (signing, error) {
	// The API server warns at each write of a Secret whose key has no certificate yet.
	quiet := rest.CopyConfig(mgr.GetConfig())
	quiet.WarningHandler = rest.NoWarnings{}
	writer, err := client.New(quiet, client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return signing{}, fmt.Errorf("client for %s: %w", c.Issuer.issuer, err)
	}
	asking := issuerclient.New(issuerclient.Config{
		Issuer: c.Issuer.issuer, Roots: c.Issuer.roots, Namespace: c.Common.Namespace, Instance: c.Instance,
		ProbeDuration: c.Limits.DefaultDuration, Clock: c.clock, Writer: writer, Live: mgr.GetAPIReader(),
	})
	if err := mgr.Add(asking); err != nil {
		return signing{}, err
	}
	return signing{sign: byKey(local, asking.Sign), issue: asking.Issue, available: whileRemote(asking.Available), candidate: func(ctx context.Context, since time.Time) (ca.Candidate, error) {
		chain, root, err := asking.CA(ctx, since)
		if err != nil {
			return ca.Candidate{}, err
		}
		return ca.NewCandidate(ca.OriginRemote, chain, root, nil), nil
	}}, nil
}
