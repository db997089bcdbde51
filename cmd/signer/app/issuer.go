package app

import (
	"context"
	"errors"
	"fmt"

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

// issuerFlags are the flags of an issuer of cert-manager; docs/remote-ca.md.
type issuerFlags struct {
	reference, roots string
	issuer           certmanager.Issuer
	given            func() bool // whether --ca-issuer was: an empty one does not mean that the CA is kept here
}

func (f *issuerFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.reference, "ca-issuer", "", "KIND/NAME[.GROUP] of an issuer of cert-manager that signs in place of the CA of this signer, such as ClusterIssuer/vault; an Issuer must be in --namespace. KIND.GROUP/NAME is the same for a name with dots")
	f.given = func() bool { return fs.Changed("ca-issuer") }
	fs.StringVar(&f.roots, "ca-issuer-roots", "", "ConfigMap in --namespace whose key ca.crt holds the root that clients must trust under --ca-issuer, and the intermediates between it and the CA; without it status.ca of the issuer's answers is trusted")
}

func (f *issuerFlags) enabled() bool { return f.reference != "" }

func (f *issuerFlags) validate(remote *remoteFlags) (err error) {
	switch {
	case f.enabled() && remote.enabled():
		return errors.New("--ca-issuer: must not be given with --cfssl-url: one CA signs")
	case f.roots != "" && !f.enabled():
		return errors.New("--ca-issuer-roots: requires --ca-issuer")
	case f.roots != "" && len(validation.IsDNS1123Subdomain(f.roots)) > 0:
		return fmt.Errorf("--ca-issuer-roots: %q: must be the name of a ConfigMap", f.roots)
	case f.given():
		if f.issuer, err = certmanager.ParseIssuer(f.reference); err != nil {
			return fmt.Errorf("--ca-issuer: %w", err)
		}
	}
	return nil
}

// issuerSigner returns what signs if the CA is an issuer of cert-manager.
func (c *Config) issuerSigner(mgr manager.Manager, local issue.Sign) (signing, error) {
	// Of a Secret with a key that has no certificate yet the API server warns, each time.
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
	return signing{sign: byKey(local, asking.Sign), issue: asking.Issue, available: whileRemote(asking.Available), candidate: func(ctx context.Context) (ca.Candidate, error) {
		chain, root, err := asking.CA(ctx)
		if err != nil {
			return ca.Candidate{}, err
		}
		return ca.NewCandidate(ca.OriginRemote, chain, root, nil), nil
	}}, nil
}
