package cfssl

import (
	"context"
	"crypto/fips140"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
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

// subjectKeyID is the extension that identifies a certificate's key (RFC 5280, 4.2.1.2).
const subjectKeyID = "2.5.29.14"

// servingPolicy is what cfssl may sign: serving certificates, with nothing from
// the CSR but its key, and with an identifier of the key that is given. The default profile has no usages, so that a profile
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
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
      },
      "` + profileServingRSA + `": {
        "usages": ["digital signature", "key encipherment", "server auth"],
        "expiry": "1h",
        "CSRWhitelist": {"PublicKey": true, "PublicKeyAlgorithm": true},
        "allowed_extensions": ["` + subjectKeyID + `"]
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
//
// cfssl always computes an identifier of the key with SHA-1. The certificate has the one that is
// given instead, but GODEBUG=fips140=only would end the process at the computation.
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

// keyIDExtension identifies the key of the CSR as the CA's key is identified, by SHA-256 (RFC 7093).
func keyIDExtension(csr []byte) (ext cfsslsigner.Extension, err error) {
	block, _ := pem.Decode(csr)
	if block == nil {
		return ext, errors.New("the CSR is not PEM")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ext, fmt.Errorf("parse CSR: %w", err)
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
