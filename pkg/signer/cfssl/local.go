package cfssl

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"

	"github.com/cloudflare/cfssl/config"
	cfsslsigner "github.com/cloudflare/cfssl/signer"
	"github.com/cloudflare/cfssl/signer/local"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// The names of the policy's profiles.
const (
	profileServing    = "serving"
	profileServingRSA = "serving-rsa"
)

// servingPolicy is what cfssl may sign: serving certificates, with nothing from
// the CSR but its key. The default profile has no usages, so that a profile
// name that is not here is refused instead of falling back to cfssl's default
// (server and client, for a year). The expiry of a profile is demanded by
// cfssl and never used: every request says when it starts and ends.
const servingPolicy = `{
  "signing": {
    "default": {"usages": [], "expiry": "1h"},
    "profiles": {
      "` + profileServing + `": {
        "usages": ["digital signature", "server auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true}
      },
      "` + profileServingRSA + `": {
        "usages": ["digital signature", "key encipherment", "server auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true}
      }
    }
  }
}`

// NewLocal returns a Sign that has cfssl's local signer sign with the key of the
// Authority it is given. The signer of one Authority is never changed (cfssl's
// SetPolicy is a data race): another Authority gets another.
func NewLocal() (issue.Sign, error) {
	policy, err := config.LoadConfig([]byte(servingPolicy))
	if err != nil {
		return nil, fmt.Errorf("cfssl: load signing policy: %w", err)
	}
	type signerOf struct {
		ca     *pki.Authority
		signer *local.Signer
	}
	var current atomic.Pointer[signerOf]
	return func(_ context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		s := current.Load()
		if s == nil || s.ca != ca {
			signer, err := local.NewSigner(ca.Key, ca.Certificate, cfsslsigner.DefaultSigAlgo(ca.Key), policy.Signing)
			if err != nil {
				return nil, fmt.Errorf("cfssl: %w", err)
			}
			s = &signerOf{ca, signer}
			current.Store(s)
		}
		return signLeaf(s.signer, request)
	}, nil
}

// signLeaf has signer sign the request and reads what it answers.
func signLeaf(signer cfsslsigner.Signer, request issue.SigningRequest) (*x509.Certificate, error) {
	answer, err := signer.Sign(cfsslRequest(request))
	if err != nil {
		return nil, fmt.Errorf("cfssl: %w", err)
	}
	certs, err := pki.ParseCertificates(answer)
	if err != nil {
		return nil, fmt.Errorf("the answer of cfssl is not a certificate: %w", err)
	}
	return certs[0], nil
}

// cfsslRequest sets everything that cfssl would otherwise take from the CSR or its
// policy: the names (even none, so that the CSR's do not count), a subject that is empty
// or a common name alone, and both ends of the validity.
func cfsslRequest(request issue.SigningRequest) cfsslsigner.SignRequest {
	hosts := make([]string, 0, len(request.DNSNames)+len(request.IPs))
	hosts = append(hosts, request.DNSNames...)
	for _, ip := range request.IPs {
		hosts = append(hosts, ip.String())
	}
	profile := profileServing
	if request.KeyAlgorithm.IsRSA() {
		profile = profileServingRSA
	}
	return cfsslsigner.SignRequest{
		Request:   string(request.CSR),
		Profile:   profile,
		Hosts:     hosts,
		Subject:   &cfsslsigner.Subject{CN: request.CommonName},
		NotBefore: request.NotBefore,
		NotAfter:  request.NotAfter,
	}
}
