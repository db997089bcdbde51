package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

const bundleName = api.BundleName

// seen is what verify has read.
type seen struct {
	host      string // the name that clients use
	service   serviceStatus
	trustName string            // NAMESPACE/NAME of the bundle ConfigMap
	bundle    map[string]string // its data; nil if there is none

	published    string // the bundle's hash, as the CA has published it
	publishedErr error  // why it may not be read

	secretRead bool   // the Secret could be read, even if it is not there
	secret     []byte // its tls.crt
	secretErr  error  // why it may not be read

	address string
	dialled bool
	served  []*x509.Certificate
	dialErr error
}

// Verdicts.
const (
	verdictHolds   = "ok"
	verdictFails   = "FAILED"
	verdictUnknown = "unknown" // the user may not see it
)

// finding is one thing that was looked at.
type finding struct{ verdict, says string }

// judge looks at everything that was read, in the order in which a certificate
// comes about. It is pure.
func judge(s seen, now time.Time) []finding {
	findings := []finding{judgeCondition(s.service)}
	bundle, err := pki.ParseBundle([]byte(s.bundle[api.BundleKey]))
	findings = append(findings, judgeBundle(s, bundle, err)...)
	if err != nil {
		bundle = pki.Bundle{}
	}
	findings = append(findings, judgeSecret(s, bundle, now)...)
	return append(findings, judgeServed(s, bundle, now)...)
}

func judgeCondition(s serviceStatus) finding {
	name := fmt.Sprintf("Service %s/%s", s.Namespace, s.Name)
	switch {
	case s.Secret == "" && s.Ready == "":
		return finding{verdictFails, fmt.Sprintf("%s: asks for no certificate (annotation %s)", name, api.AnnotationSecretName)}
	case s.Ready == "":
		return finding{verdictFails, fmt.Sprintf("%s: no condition %s yet: is namespace %s labelled %s=%s, and does the signer run?", name, api.ConditionReady, s.Namespace, api.LabelInject, api.InjectEnabled)}
	case s.Ready != string(corev1.ConditionTrue):
		return finding{verdictFails, fmt.Sprintf("%s: not ready: %s: %s", name, s.Reason, s.Message)}
	}
	return finding{verdictHolds, fmt.Sprintf("%s: %s: leaf %s", name, s.Reason, short(s.Leaf))}
}

func judgeBundle(s seen, bundle pki.Bundle, err error) []finding {
	name := "ConfigMap " + s.trustName
	switch {
	case s.bundle == nil:
		return []finding{{verdictFails, name + ": missing: clients of this namespace have no bundle; does the rotator run?"}}
	case err != nil:
		return []finding{{verdictFails, fmt.Sprintf("%s: %s: %v", name, api.BundleKey, err)}}
	case s.publishedErr != nil:
		return []finding{{verdictUnknown, fmt.Sprintf("%s: %d roots; what the CA has published may not be read: %v", name, len(bundle.Certificates()), s.publishedErr)}}
	case bundle.Hash() != s.published:
		return []finding{{verdictFails, fmt.Sprintf("%s: holds bundle %s, and the CA has published %s", name, short(bundle.Hash()), dash(short(s.published)))}}
	}
	return []finding{{verdictHolds, fmt.Sprintf("%s: %d roots, as the CA has published them (%s)", name, len(bundle.Certificates()), short(s.published))}}
}

func judgeSecret(s seen, bundle pki.Bundle, now time.Time) []finding {
	name := fmt.Sprintf("Secret %s/%s", s.service.Namespace, s.service.Secret)
	switch {
	case s.service.Secret == "":
		return nil
	case s.secretErr != nil:
		return []finding{{verdictUnknown, fmt.Sprintf("%s: may not be read: %v", name, s.secretErr)}}
	case len(s.secret) == 0:
		return []finding{{verdictFails, name + ": missing, or without " + corev1.TLSCertKey}}
	}
	certs, err := pki.ParseCertificates(s.secret)
	if err != nil {
		return []finding{{verdictFails, fmt.Sprintf("%s: %s: %v", name, corev1.TLSCertKey, err)}}
	}
	return judgeChain(name, s, certs, bundle, now)
}

func judgeServed(s seen, bundle pki.Bundle, now time.Time) []finding {
	if !s.dialled {
		return nil
	}
	if s.dialErr != nil {
		return []finding{{verdictFails, fmt.Sprintf("%s: %v", s.address, s.dialErr)}}
	}
	return judgeChain(s.address, s, s.served, bundle, now)
}

// judgeChain holds certificates against the condition and the bundle.
func judgeChain(name string, s seen, certs []*x509.Certificate, bundle pki.Bundle, now time.Time) []finding {
	leaf := certs[0]
	findings := []finding{{verdictHolds, fmt.Sprintf("%s: leaf %s, as the condition says", name, short(pki.Fingerprint(leaf)))}}
	if got := pki.Fingerprint(leaf); got != s.service.Leaf {
		findings[0] = finding{verdictFails, fmt.Sprintf("%s: leaf %s (issued %s by %q), and the condition names %s", name,
			short(got), pki.IssuedAt(leaf).UTC().Format(time.RFC3339), leaf.Issuer.CommonName, dash(short(s.service.Leaf)))}
	}
	if err := verifies(certs, s.host, bundle, now); err != nil {
		return append(findings, finding{verdictFails, fmt.Sprintf("%s: %v", name, err)})
	}
	return append(findings, finding{verdictHolds, fmt.Sprintf("%s: verifies for %s until %s", name, strings.Join(leaf.DNSNames, ", "), leaf.NotAfter.UTC().Format(time.RFC3339))})
}

// verifies says why a client with the bundle does not accept the certificates
// for the host or for one of the names in them, or nil.
func verifies(certs []*x509.Certificate, host string, bundle pki.Bundle, now time.Time) error {
	if len(bundle.Certificates()) == 0 {
		return errors.New("there is no bundle to verify with")
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range bundle.Certificates() {
		roots.AddCert(root)
	}
	for _, c := range certs[1:] {
		intermediates.AddCert(c)
	}
	for _, name := range append([]string{host}, certs[0].DNSNames...) {
		// A wildcard is for the names below it.
		name = strings.Replace(name, "*.", "pod-0.", 1)
		if _, err := certs[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: intermediates, CurrentTime: now, DNSName: name,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}); err != nil {
			return fmt.Errorf("a client refuses it as %s: %w", name, err)
		}
	}
	if i := slices.IndexFunc(certs[1:], isRoot); i >= 0 {
		return fmt.Errorf("certificate %d of the chain is a root: OpenSSL and curl may refuse it", i+2)
	}
	return nil
}

func isRoot(c *x509.Certificate) bool { return string(c.RawIssuer) == string(c.RawSubject) }
