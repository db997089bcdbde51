package state

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Ready is the state of condition Ready, which the signer writes.
type Ready struct {
	// Secret is the Secret that the Service requests, or that is retained for it. It holds or will
	// hold a certificate of the Service.
	Secret string `json:"secret,omitempty"`
	// Request is the hash of the request (api.Wanted.Hash); "" if there is none.
	Request string `json:"request,omitempty"`
	// Leaf is the fingerprint (SHA-256 of the DER, in hex) of the leaf in the Secret; "" if it
	// holds none that was issued for the Service.
	Leaf string `json:"leaf,omitempty"`
	// External: another issuer writes the Secret.
	External bool `json:"external,omitempty"`
	// Unverified: that Secret has ca.crt, and neither this nor the cluster's bundle verifies its certificate.
	Unverified bool `json:"unverified,omitempty"`
	// Chain has the links that a server has to send with the leaf of another issuer, those of one element
	// (pki.Verified.Paths); none if any chain will do.
	Chain []string `json:"chain,omitempty"`
	// Kept are the Secrets that the Service requested before and still has, sorted.
	Kept []string `json:"kept,omitempty"`
	// Names are some of the names in the certificates of the Service's pods, if they make their
	// keys. Names below a headless Service are shown as a wildcard; each pod has its own name.
	Names []string `json:"names,omitempty"`
	// Proof is the signer's proof, in base64url, that the Service was opted in. Only the signer can
	// verify it.
	Proof string `json:"proof,omitempty"`
}

// Limits of a Ready, which keep its JSON within 8 KiB.
const (
	maxShown = 4 // names, and elements of Chain
	// maxKeptBytes is the largest total size of the names of kept Secrets.
	maxKeptBytes = 4 << 10
)

// WithKept returns the state with the first of the Secrets, sorted: at most api.MaxKept.
func (r Ready) WithKept(secrets []string) Ready {
	r.Kept = withRoom(slices.Sorted(slices.Values(secrets)))
	return r
}

func withRoom(secrets []string) []string {
	bytes := 0
	for i, name := range secrets {
		if bytes += len(name) + len(`"",`); i == api.MaxKept || bytes > maxKeptBytes {
			return secrets[:i]
		}
	}
	return secrets
}

// WithNames returns the state with the first of the names.
func (r Ready) WithNames(names []string) Ready {
	r.Names = names[:min(len(names), maxShown)]
	return r
}

// ReadyOf returns the state of the Service's condition Ready; empty if there is none. Only the
// signer should write it, and Secrets only for a Service that was opted in at the time; others may
// have the permission to write it too.
func ReadyOf(svc *corev1.Service) Ready {
	r := read[Ready](svc, api.ConditionReady)
	if !isName(r.Secret) {
		r.Secret, r.Request, r.Leaf = "", "", ""
	}
	if !api.IsFingerprint(r.Leaf) {
		r.Leaf = ""
	}
	r.Chain = slices.DeleteFunc(r.Chain[:min(len(r.Chain), maxShown)], func(path string) bool { return !chainForm.MatchString(path) })
	if !hashForm.MatchString(r.Request) {
		r.Request = ""
	}
	if !proofForm.MatchString(r.Proof) {
		r.Proof = ""
	}
	r.Kept = slices.DeleteFunc(withRoom(r.Kept), func(name string) bool { return !isName(name) })
	r = r.WithNames(r.Names)
	r.Names = slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool { return len(name) > 253 || !hostForm.MatchString(name) })
	return r
}

// isName reports whether s has the form of an object name.
func isName(s string) bool { return len(s) <= 253 && nameForm.MatchString(s) }

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	hostForm = regexp.MustCompile(`^(\*\.)?[a-z0-9.:-]+$`)
	// chainForm matches pki.Links of as many certificates as the signer considers, and more.
	chainForm = regexp.MustCompile(`^[0-9a-f]{16}(\.[0-9a-f]{16}){0,15}$`)
	hashForm  = regexp.MustCompile(`^[0-9a-z]{1,64}$`)
)

// proofForm matches a signature in base64url; with an RSA4096 key it has 683 characters.
var proofForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,1000}$`)

// Has reports whether the Secret holds a certificate of the Service: it is requested or kept.
func (r Ready) Has(secret string) bool {
	return r.Secret == secret || slices.Contains(r.Kept, secret)
}

// PartIn returns the Secret that holds the Service's certificate: the one that it requests, or the
// one that is retained for it.
func PartIn(svc *corev1.Service) (secretName string, ok bool) {
	if secretName, ok = api.Wants(svc); ok || svc.DeletionTimestamp != nil {
		return secretName, ok
	}
	if c := api.Condition(svc, api.ConditionReady); c == nil || c.Reason != api.ReasonRetained {
		return "", false
	}
	secretName = ReadyOf(svc).Secret
	return secretName, secretName != ""
}

// LeafOf returns the fingerprint of the leaf in the Service's state, or false if there is none.
func LeafOf(svc *corev1.Service) (fingerprint string, ok bool) {
	leaf := ReadyOf(svc).Leaf
	return leaf, leaf != ""
}
