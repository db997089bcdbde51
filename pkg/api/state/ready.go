package state

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Ready is the state beside condition Ready, which the signer writes.
type Ready struct {
	// Secret is the one that the Service asks for, or that is retained for it: it holds a
	// certificate of the Service, or is to.
	Secret string `json:"secret,omitempty"`
	// Request is the hash of what was asked for (api.Wanted.Hash); "" if nothing is asked for.
	Request string `json:"request,omitempty"`
	// Leaf is the fingerprint (SHA-256 of the DER, in hex) of the leaf in the Secret; "" if it
	// holds none that was issued for the Service.
	Leaf string `json:"leaf,omitempty"`
	// Kept are the Secrets that the Service asked for before and still has, sorted.
	Kept []string `json:"kept,omitempty"`
	// Names are some of those in the certificates of the Service's pods, if they make their keys.
	// Names below a headless Service are a wildcard; each pod has its own name there.
	Names []string `json:"names,omitempty"`
	// Proof shows that the Service was opted in, as the signer makes it; base64url. Whether it is
	// one, only the signer can tell.
	Proof string `json:"proof,omitempty"`
}

// Limits of what a Ready holds. One that is full has at most MaxReady bytes as JSON.
const (
	maxShown = 4 // names
	maxProof = 1000
	// maxKeptBytes is how long the names of kept Secrets may be in all.
	maxKeptBytes = 4 << 10
)

// WithKept returns the state with the first of the Secrets in order: at most api.MaxKept.
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

// ReadyOf returns the state of the Service's condition Ready, empty if there is none. Only the
// signer should write it, and Secrets only of a Service that was opted in at the time; others may
// have the right to.
func ReadyOf(svc *corev1.Service) Ready {
	r := read[Ready](svc, api.ConditionReady)
	if !isName(r.Secret) {
		r.Secret, r.Request, r.Leaf = "", "", ""
	}
	if !api.IsFingerprint(r.Leaf) {
		r.Leaf = ""
	}
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

// isName reports whether s has the form of an object's name.
func isName(s string) bool { return len(s) <= 253 && nameForm.MatchString(s) }

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	hostForm = regexp.MustCompile(`^(\*\.)?[a-z0-9.:-]+$`)
	hashForm = regexp.MustCompile(`^[0-9a-z]{1,64}$`)
)

// proofForm is base64url of a signature; one by a key of RSA4096 has 683 characters.
var proofForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,1000}$`)

// Has reports whether the Secret holds a certificate of the Service: the one that it asks for, or
// one that is kept from before.
func (r Ready) Has(secret string) bool {
	return r.Secret == secret || slices.Contains(r.Kept, secret)
}

// PartIn returns the Secret that holds the Service's certificate: the one that it asks for, or the
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

// LeafOf returns the fingerprint of the leaf that the Service's state names, or false if it names
// none.
func LeafOf(svc *corev1.Service) (fingerprint string, ok bool) {
	leaf := ReadyOf(svc).Leaf
	return leaf, leaf != ""
}
