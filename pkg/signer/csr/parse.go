package csr

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// minLifetime is the shortest lifetime that may be requested or issued. The API server has the
// same bound.
const minLifetime = 10 * time.Minute

// maxCommonName is the most bytes of a common name (RFC 5280, ub-common-name).
const maxCommonName = 64

// asked is the content of a valid request.
type asked struct {
	der        []byte
	key        crypto.PublicKey
	algorithm  pki.KeyAlgorithm
	commonName string       // one of dnsNames, or empty
	dnsNames   []string     // sorted, no duplicates
	ips        []netip.Addr // sorted, no duplicates
}

// Refusal is why a request can never be signed.
type Refusal struct {
	Reason string // of the condition
	error
}

func refusef(reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Errorf(format, args...)}
}

// parsed is the result of parse.
type parsed struct {
	asked
	*Refusal
}

// parse returns the content of the request, or why it can never be signed, whoever the
// requester is. The request is parsed, and its signature verified, once.
func (r *Request) parse() (asked, *Refusal) {
	if r.parsed == nil {
		r.parsed = &parsed{}
		r.parsed.asked, r.parsed.Refusal = r.parseOnce()
	}
	return r.parsed.asked, r.parsed.Refusal
}

func (r *Request) parseOnce() (asked, *Refusal) {
	csr, algorithm, refused := Read(r.PEM)
	if refused != nil {
		return asked{}, refused
	}
	a := asked{der: csr.Raw, key: csr.PublicKey, algorithm: algorithm}
	if err := a.readNames(csr); err != nil {
		return asked{}, &Refusal{reasonInvalidName, err}
	}
	if err := a.readSubject(csr); err != nil {
		return asked{}, &Refusal{reasonInvalidName, err}
	}
	if err := checkUsages(r.Usages, algorithm); err != nil {
		return asked{}, &Refusal{reasonUsages, err}
	}
	if r.Lifetime != 0 && r.Lifetime < minLifetime {
		return asked{}, refusef(reasonInvalid, "spec.expirationSeconds: %d: must be at least %d", r.Lifetime/time.Second, minLifetime/time.Second)
	}
	return a, nil
}

// Read decodes a PKCS #10 request in PEM and returns it with its key algorithm. The Refusal is
// for an invalid encoding, signature, key or extension. Names other than their kinds, usages and
// the subject are not checked.
func Read(data []byte) (*x509.CertificateRequest, pki.KeyAlgorithm, *Refusal) {
	csr, err := decode(data)
	if err != nil {
		return nil, "", &Refusal{reasonInvalid, err}
	}
	algorithm, ok := pki.AlgorithmOf(csr.PublicKey) // first: it bounds the cost of the signature
	if !ok {
		return nil, "", refusef(reasonUnsupportedKey, "spec.request: unsupported key type or size: must be one of %s", pki.KeyAlgorithms())
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, "", refusef(reasonInvalid, "spec.request: not signed with its own key: %w", err)
	}
	if err := checkExtensions(csr); err != nil {
		return nil, "", &Refusal{reasonInvalid, err}
	}
	return csr, algorithm, nil
}

// decode decodes data, which must be exactly one PKCS #10 request.
func decode(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > maxPEM {
		return nil, fmt.Errorf("spec.request: %d bytes: must be at most %d", len(data), maxPEM)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New(`spec.request: must be one PEM block "CERTIFICATE REQUEST"`)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("spec.request: not a PKCS #10 request: %w", err)
	}
	return csr, nil
}

var (
	oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidCommonName     = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// checkExtensions returns an error that names an extension that is not allowed, or nil.
// Attributes that are not extensions, such as a challenge password, do not affect the
// certificate.
func checkExtensions(csr *x509.CertificateRequest) error {
	for _, e := range csr.Extensions {
		if !e.Id.Equal(oidSubjectAltName) {
			return fmt.Errorf("spec.request: extension %s: only subjectAltName is allowed", e.Id)
		}
	}
	return pki.CheckKindsOfNames(csr.Extensions)
}

// readNames reads the subject alternative names.
func (a *asked) readNames(csr *x509.CertificateRequest) error {
	n := len(csr.DNSNames) + len(csr.IPAddresses)
	if n == 0 {
		return errors.New("spec.request: no subjectAltName: must have at least one DNS name or IP address")
	}
	if n > api.MaxNames {
		return fmt.Errorf("spec.request: %d names: must be at most %d", n, api.MaxNames)
	}
	for _, name := range csr.DNSNames {
		if errs := validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*.")); len(errs) > 0 {
			return fmt.Errorf("DNS name %q: %s", shown(name), strings.Join(errs, "; "))
		}
	}
	a.dnsNames = sorted(csr.DNSNames, strings.Compare)
	a.ips = sorted(Addresses(csr), netip.Addr.Compare)
	if len(a.dnsNames)+len(a.ips) < n {
		return errors.New("spec.request: duplicate name: each name must occur once")
	}
	return nil
}

// Addresses returns the IP addresses of a request.
func Addresses(csr *x509.CertificateRequest) (ips []netip.Addr) {
	for _, ip := range csr.IPAddresses {
		address, _ := netip.AddrFromSlice(ip) // x509 has checked the length
		ips = append(ips, address.Unmap())
	}
	return ips
}

// readSubject reads the common name, the only attribute that the subject may have.
func (a *asked) readSubject(csr *x509.CertificateRequest) error {
	names := csr.Subject.Names
	if len(names) == 0 {
		return nil
	}
	name, isString := names[0].Value.(string)
	switch {
	case len(names) > 1 || !names[0].Type.Equal(oidCommonName) || !isString:
		return errors.New("spec.request: subject: must be empty, or a common name only")
	case !slices.Contains(a.dnsNames, name):
		return fmt.Errorf("spec.request: common name %q: must be one of the DNS names", shown(name))
	case len(name) > maxCommonName:
		return fmt.Errorf("spec.request: common name: %d characters: must be at most %d; the subject may be empty", len(name), maxCommonName)
	}
	a.commonName = name
	return nil
}

// checkUsages returns an error if the usages are not those of a serving certificate.
func checkUsages(usages []certificatesv1.KeyUsage, algorithm pki.KeyAlgorithm) error {
	need := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	allowed := need
	if algorithm.IsRSA() {
		allowed = append(allowed[:2:2], certificatesv1.UsageKeyEncipherment)
	}
	for _, u := range usages {
		if !slices.Contains(allowed, u) {
			return fmt.Errorf("spec.usages: %q: with an %s key, only %q are allowed", shown(string(u)), algorithm, allowed)
		}
	}
	for _, u := range need {
		if !slices.Contains(usages, u) {
			return fmt.Errorf("spec.usages: %q is missing: must be %q", u, allowed)
		}
	}
	return nil
}

// sorted returns the values in order, each once.
func sorted[T comparable](values []T, order func(a, b T) int) []T {
	values = slices.Clone(values)
	slices.SortFunc(values, order)
	return slices.Compact(values)
}

// shown returns a value shortened for a message.
func shown(value string) string { return api.Shorten(value, maxShown) }

// maxShown is the most characters of a value in a message.
const maxShown = 80
