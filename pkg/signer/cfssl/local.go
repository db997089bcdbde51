package cfssl

import (
	"context"
	"crypto/fips140"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
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
	profileClient     = "client"
	profileClientRSA  = "client-rsa"
)

// subjectKeyID is the extension that identifies a certificate's key (RFC 5280, 4.2.1.2).
const subjectKeyID = "2.5.29.14"

// localPolicy permits only serving certificates and client certificates, which take only the key from the CSR, and the
// identifier of the key from the request. The default profile has no usages, so an unknown profile
// name is refused; cfssl's own default would be server and client for a year. cfssl requires the
// expiry of a profile, but does not use it: every request sets its start and end.
const localPolicy = `{
  "signing": {
    "default": {"usages": [], "expiry": "1h"},
    "profiles": {
      "` + profileServing + `": {
        "usages": ["digital signature", "server auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
      },
      "` + profileServingRSA + `": {
        "usages": ["digital signature", "key encipherment", "server auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
      },
      "` + profileClient + `": {
        "usages": ["digital signature", "client auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
      },
      "` + profileClientRSA + `": {
        "usages": ["digital signature", "key encipherment", "client auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
      }
    }
  }
}`

// NewLocal returns an issue.Sign that uses cfssl's local signer with the key of the given
// Authority. Each Authority gets a new signer, since cfssl's SetPolicy is a data race.
func NewLocal() (issue.Sign, error) {
	policy, err := config.LoadConfig([]byte(localPolicy))
	if err != nil {
		return nil, fmt.Errorf("cfssl: load signing policy: %w", err)
	}
	type signerOf struct {
		ca     *pki.Authority
		signer *local.Signer
	}
	var current atomic.Pointer[signerOf]
	return func(_ context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		if domain := pki.TrustDomainOf(ca.Certificate); domain != request.Identity.TrustDomain {
			return nil, fmt.Errorf("the CA of trust domain %q does not sign for trust domain %q", domain, request.Identity.TrustDomain)
		}
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

// signLeaf has signer sign the request and parses the certificate.
//
// cfssl always computes an identifier of the key with SHA-1, although the request has one.
// Under GODEBUG=fips140=only, that computation would panic.
func signLeaf(signer cfsslsigner.Signer, request issue.SigningRequest) (*x509.Certificate, error) {
	wire := cfsslRequest(request)
	id, err := keyIDExtension(request.CSR)
	if err != nil {
		return nil, err
	}
	wire.Extensions = []cfsslsigner.Extension{id}
	var answer []byte
	fips140.WithoutEnforcement(func() { answer, err = signer.Sign(wire) })
	if err != nil {
		return nil, fmt.Errorf("cfssl: %w", err)
	}
	certs, err := pki.ParseCertificates(answer)
	if err != nil {
		return nil, fmt.Errorf("cfssl: parse certificate: %w", err)
	}
	return certs[0], nil
}

// cfsslRequest sets all fields that cfssl would otherwise take from the CSR or its policy: the
// names (not nil, even if there are none), a subject that is empty or a common name only, and
// both ends of the validity.
func cfsslRequest(request issue.SigningRequest) cfsslsigner.SignRequest {
	hosts := make([]string, 0, len(request.DNSNames)+len(request.IPs))
	hosts = append(hosts, request.DNSNames...)
	for _, ip := range request.IPs {
		hosts = append(hosts, ip.String())
	}
	profile, rsa := profileServing, profileServingRSA
	if request.Identity != (pki.SPIFFEID{}) {
		profile, rsa = profileClient, profileClientRSA
		hosts = append(hosts, request.Identity.String())
	}
	if request.KeyAlgorithm.IsRSA() {
		profile = rsa
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

// keyIDExtension returns the subject key identifier for the key of the CSR, by SHA-256 (RFC 7093).
func keyIDExtension(csr []byte) (ext cfsslsigner.Extension, err error) {
	parsed, err := issue.DecodeCSR(csr)
	if err != nil {
		return ext, err
	}
	id, err := pki.KeyID(parsed.PublicKey)
	if err != nil {
		return ext, err
	}
	value, err := asn1.Marshal(id)
	if err != nil {
		return ext, fmt.Errorf("key id: %w", err)
	}
	return cfsslsigner.Extension{ID: config.OID{2, 5, 29, 14}, Value: hex.EncodeToString(value)}, nil
}
