// Package status decides what kubectl-servingcert reports and does, from the state that
// was read from a cluster. It is pure: it reads nothing, and the time is an argument.
package status

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// VerifySituation is the input of Verify.
type VerifySituation struct {
	Host      string // the name that clients use
	Service   Service
	TrustName string            // NAMESPACE/NAME of the bundle ConfigMap
	Bundle    map[string]string // its data; nil if it is missing
	BundleErr error             // why it may not be read

	Published    string // the hash of the bundle that the CA has published
	PublishedErr error  // why it cannot be read

	Secret    []byte // tls.crt of the Secret; empty if it is missing
	SecretErr error  // why it cannot be read
	// SecretCA are the roots in ca.crt of the Secret, and Public those of this machine; nil if there are
	// none. They count for the Secret of another issuer.
	SecretCA, Public *x509.CertPool

	NoRotator      string // the problem if no rotator runs
	RotatorUnknown string // why it is unknown whether one runs

	Targets []api.ProbeTarget // of the Service
	Address string
	Dialled bool
	Served  []*x509.Certificate
	DialErr error
	// Handshake is the result of the handshake, if there was one.
	Handshake probe.Handshake
	// Clients are those that the Service lists. Strangers is what the address did to others; nil if none has tried.
	Clients   []string
	Strangers *probe.Guarding
}

// Proxied reports whether the address with this port may be that of a proxy, which records who calls. Only a port of the
// Service that leads to the program is known not to be: others may be forwarded.
func (s VerifySituation) Proxied(port string) bool {
	proxied := func(t api.ProbeTarget) bool { return slices.Contains(s.Service.Proxy, t.Target.String()) }
	for _, t := range s.Targets {
		if t.Named && (port == t.Target.String() || port == strconv.Itoa(int(t.Port))) {
			return proxied(t)
		}
	}
	return len(s.Service.Proxy) > 0
}

// Guard returns what strangers need to know of the address. It serves plaintext too if each port of a proxy does.
func (s VerifySituation) Guard() probe.Guard {
	only := func(name string) bool { p, _ := api.ParseProxyPort(name); return !p.Plaintext }
	both := len(s.Service.Proxy) > 0 && !slices.ContainsFunc(s.Service.Proxy, only)
	return probe.Guard{Plaintext: both, Listed: probe.ListedIn(s.Clients, s.Service.Namespace)}
}

// Protocol returns the STARTTLS protocol of the Service's port with this number or targetPort. For other
// numbers, such as a forwarded port, it returns the protocol of all ports, if they have the same.
func (s VerifySituation) Protocol(port string) starttls.Protocol {
	protocols := map[starttls.Protocol]bool{}
	for _, t := range s.Targets {
		if port == t.Target.String() || port == strconv.Itoa(int(t.Port)) {
			return t.Protocol
		}
		protocols[t.Protocol] = true
	}
	if len(protocols) != 1 {
		return ""
	}
	return s.Targets[0].Protocol
}

// AwaitsReport reports whether a rotator runs, and its report is about to change: the Service has had another certificate or
// other ports since, or pods have not loaded the certificate, or their list of clients, yet.
func (s VerifySituation) AwaitsReport() bool {
	said := s.Service.Serving
	return s.NoRotator == "" && (said != nil && (said.Outdated || said.Reason == api.ServingPropagating) || s.Service.Guarded.awaited())
}

// Verdicts.
const (
	VerdictOK      = "ok"
	VerdictFailed  = "FAILED"
	VerdictUnknown = "unknown" // the user may not read it
	VerdictNotSeen = "notSeen" // the rotator has not probed it yet, or does not run
)

// Finding is the result of one check, in the form of -o json. Text is not escaped.
type Finding struct {
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
}

// Verify checks the condition, the bundle, the Secret, and the served certificates.
func Verify(s VerifySituation, now time.Time) []Finding {
	findings := []Finding{checkCondition(s.Service)}
	bundle, err := pki.ParseBundle([]byte(s.Bundle[api.BundleKey]))
	findings = append(findings, checkBundle(s, bundle, err)...)
	if err != nil {
		bundle = pki.Bundle{}
	}
	findings = append(findings, checkSecret(s, bundle, now)...)
	findings = append(append(findings, checkServing(s)...), checkGuarded(s)...)
	return append(append(findings, checkServed(s, bundle, now)...), checkStrangers(s)...)
}

func checkCondition(s Service) Finding {
	name := fmt.Sprintf("Service %s/%s", s.Namespace, s.Name)
	switch {
	case s.Secret == "" && !s.PodKeys && s.Ready == "":
		return Finding{VerdictFailed, fmt.Sprintf("%s: does not request a certificate (annotation %s)", name, api.AnnotationSecretName)}
	case s.Ready == "":
		return Finding{VerdictFailed, fmt.Sprintf("%s: no condition %s yet: is namespace %s labelled %s=%s, and is the signer running?", name, api.ConditionReady, s.Namespace, api.LabelInject, api.InjectEnabled)}
	case s.Ready != string(corev1.ConditionTrue):
		return Finding{VerdictFailed, fmt.Sprintf("%s: not ready: %s: %s", name, s.Reason, s.Message)}
	}
	text := fmt.Sprintf("%s: %s: leaf %s", name, s.Reason, Short(s.Leaf))
	if s.PodKeys {
		text = fmt.Sprintf("%s: %s: %s", name, s.Reason, s.Message)
	}
	if by := s.ByProxy(); by != "" {
		text += "; " + by
	}
	return Finding{VerdictOK, text}
}

func checkBundle(s VerifySituation, bundle pki.Bundle, err error) []Finding {
	name := "ConfigMap " + s.TrustName
	switch {
	case s.BundleErr != nil:
		return []Finding{{VerdictUnknown, fmt.Sprintf("%s: cannot be read: %v", name, s.BundleErr)}}
	case s.Bundle == nil:
		return []Finding{{VerdictFailed, name + ": missing: clients of this namespace have no bundle; is the rotator running?"}}
	case err != nil:
		return []Finding{{VerdictFailed, fmt.Sprintf("%s: %s: %v", name, api.BundleKey, err)}}
	case s.PublishedErr != nil:
		return []Finding{{VerdictUnknown, fmt.Sprintf("%s: %s; cannot compare with the bundle that the CA has published: %v", name, api.Count(len(bundle.Certificates()), "root"), s.PublishedErr)}}
	case bundle.Hash() != s.Published:
		return []Finding{{VerdictFailed, fmt.Sprintf("%s: holds bundle %s, but the CA has published %s", name, Short(bundle.Hash()), Dash(Short(s.Published)))}}
	}
	return []Finding{{VerdictOK, fmt.Sprintf("%s: %s, as published by the CA (%s)", name, api.Count(len(bundle.Certificates()), "root"), Short(s.Published))}}
}

func checkSecret(s VerifySituation, bundle pki.Bundle, now time.Time) []Finding {
	name := fmt.Sprintf("Secret %s/%s", s.Service.Namespace, s.Service.Secret)
	switch {
	case s.Service.Secret == "":
		return nil
	case s.SecretErr != nil:
		return []Finding{{VerdictUnknown, fmt.Sprintf("%s: cannot be read: %v", name, s.SecretErr)}}
	case len(s.Secret) == 0:
		return []Finding{{VerdictFailed, name + ": missing, or has no " + corev1.TLSCertKey}}
	}
	certs, err := pki.ParseCertificates(pki.CertificateBlocks(s.Secret))
	if err != nil {
		return []Finding{{VerdictFailed, fmt.Sprintf("%s: %s: %v", name, corev1.TLSCertKey, err)}}
	}
	return checkChain(name, s, certs, bundle, now)
}

func checkServed(s VerifySituation, bundle pki.Bundle, now time.Time) []Finding {
	if !s.Dialled {
		return nil
	}
	if s.DialErr != nil {
		return []Finding{{VerdictFailed, fmt.Sprintf("%s: %v", s.Address, s.DialErr)}}
	}
	n := s.Handshake.Names()
	spoke := Finding{VerdictOK, fmt.Sprintf("%s: %s, key exchange %s, leaf signed with %s", s.Address, n.Version, n.Group, n.Signature)}
	return append(checkChain(s.Address, s, s.Served, bundle, now), spoke)
}

// checkServing returns what the rotator has seen the pods serve at the TLS ports of the Service;
// nothing before it has a certificate. The rotator's report counts only while a rotator runs.
func checkServing(s VerifySituation) []Finding {
	if s.Service.Leaf == "" && !s.Service.PodKeys {
		return nil
	}
	name := fmt.Sprintf("pods of Service %s/%s: ", s.Service.Namespace, s.Service.Name)
	if s.NoRotator != "" {
		text := name + s.NoRotator
		if last := s.Service.Serving; last != nil {
			text += fmt.Sprintf("; its last report may be out of date: %s: %s", last.Reason, last.Message)
		}
		return []Finding{{VerdictNotSeen, text}}
	}
	verdict, text := reported(s.Service)
	findings := []Finding{{verdict, name + text}}
	if s.RotatorUnknown != "" {
		findings = append(findings, Finding{VerdictUnknown, name + "cannot check whether a rotator runs, so this may be out of date: " + s.RotatorUnknown})
	}
	return findings
}

// reported returns the verdict and the text of the rotator's last report.
func reported(s Service) (verdict, text string) {
	switch {
	case s.servesNothing():
		return VerdictNotSeen, "the Service no longer requests the certificate, and none of its pods was seen to serve it"
	case s.Serving == nil, s.PodKeys && s.Serving.Leaf != "": // the condition is about a Secret
		return VerdictNotSeen, "the rotator has not reported yet what they serve"
	case s.Serving.Outdated:
		return VerdictNotSeen, "the rotator has not reported yet what they serve: its last report is about an earlier certificate, or other ports: " + s.Serving.Reason
	case s.Serving.isTrue():
		return VerdictOK, s.Serving.Message
	case s.Serving.Status == string(corev1.ConditionUnknown), s.Serving.Reason == api.ServingPropagating:
		return VerdictNotSeen, s.Serving.Reason + ": " + s.Serving.Message
	}
	return VerdictFailed, s.Serving.Reason + ": " + s.Serving.Message
}

// refreshLate is how long after its refresh is due an old certificate may still be served:
// five minutes of the kubelet's, and two until the server has read the new one.
const refreshLate = 7 * time.Minute

// checkRefresh checks that the leaf of a pod's own key, or of an earlier Secret, is not
// overdue for its refresh. No condition names that leaf.
func checkRefresh(name string, s Service, leaf *x509.Certificate, now time.Time) Finding {
	refresh := pki.RefreshAt(leaf)
	if s.Followed() {
		refresh = leaf.NotAfter.Add(-probe.LatestRefresh)
	}
	text := fmt.Sprintf("%s: leaf %s of the pod's own key, which its kubelet refreshes at %s", name, Short(pki.Fingerprint(leaf)), refresh.UTC().Format(time.RFC3339))
	if len(s.kept) > 0 {
		text = fmt.Sprintf("%s: leaf %s of the pod's own key, or of the earlier Secret %s, with a refresh due at %s", name, Short(pki.Fingerprint(leaf)),
			api.Escape(strings.Join(s.kept, " or ")), refresh.UTC().Format(time.RFC3339))
	}
	if now.After(refresh.Add(refreshLate)) {
		return Finding{VerdictFailed, text + ". That time has passed: the server has not read its files again"}
	}
	return Finding{VerdictOK, text}
}

// checkChain compares certificates with the condition and the bundle.
func checkChain(name string, s VerifySituation, certs []*x509.Certificate, bundle pki.Bundle, now time.Time) []Finding {
	leaf := certs[0]
	findings := []Finding{{VerdictOK, fmt.Sprintf("%s: leaf %s, as in the condition", name, Short(pki.Fingerprint(leaf)))}}
	if s.Service.PodKeys {
		findings[0] = checkRefresh(name, s.Service, leaf, now)
	} else if got := pki.Fingerprint(leaf); got != s.Service.Leaf {
		findings[0] = Finding{VerdictFailed, fmt.Sprintf("%s: leaf %s (issued %s by %q), but the condition names %s", name,
			Short(got), pki.IssuedAt(leaf).UTC().Format(time.RFC3339), leaf.Issuer.CommonName, Dash(Short(s.Service.Leaf)))}
	}
	if s.Service.Followed() {
		return append(findings, checkForeign(name, s, certs, bundle, now))
	}
	if s.BundleErr != nil {
		return append(findings, checkUnverified(name, s, leaf, now))
	}
	if err := verifies(certs, s.Host, bundle, now); err != nil {
		return append(findings, Finding{VerdictFailed, fmt.Sprintf("%s: %v", name, err)})
	}
	return append(findings, Finding{VerdictOK, fmt.Sprintf("%s: verifies for %s until %s", name, strings.Join(leaf.DNSNames, ", "), leaf.NotAfter.UTC().Format(time.RFC3339))})
}
