// Package invariant says what must hold of a cluster after a scene. It judges what was seen, and
// asks nobody: each function returns one line for each violation.
package invariant

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Outcome is what became of a request. The later ones are worse.
type Outcome int

// The outcomes.
const (
	Done    Outcome = iota
	Away            // the API server or its etcd did not answer
	Refused         // the API server answered that the webhook did not, or said no
)

// refusals are in the errors of requests that were refused.
var refusals = regexp.MustCompile(`failed calling webhook|failed to call webhook|denied the request`)

// Classify returns the outcome of a request that ended with err.
func Classify(err error) Outcome {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return Done
	case errors.As(err, &status) && refusals.MatchString(err.Error()):
		return Refused
	}
	return Away
}

// Version is which version of an object is there.
type Version struct{ UID, ResourceVersion string }

// Foreign checks that objects which are nobody's business are as they were, by name.
func Foreign(before, after map[string]Version) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		now, ok := after[name]
		switch {
		case !ok:
			out = append(out, name+" is gone")
		case now.UID != before[name].UID:
			out = append(out, name+" was replaced")
		case now != before[name]:
			out = append(out, name+" was written")
		}
	}
	return out
}

// Usage is what a process holds.
type Usage struct {
	Goroutines int
	Resident   int64 // bytes
}

// Max returns the larger part of each.
func (u Usage) Max(v Usage) Usage {
	return Usage{max(u.Goroutines, v.Goroutines), max(u.Resident, v.Resident)}
}

// Leaks checks what processes hold after the scenes, by kind of process: at most a quarter more
// goroutines and 30, and half as much memory again and 32 MiB, as at the beginning, when all was settled.
func Leaks(before, after map[string]Usage) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, now := before[name], after[name]
		if most := was.Goroutines + was.Goroutines/4 + 30; now.Goroutines > most {
			out = append(out, fmt.Sprintf("%s has %d goroutines, had %d: at most %d", name, now.Goroutines, was.Goroutines, most))
		}
		if most := was.Resident + was.Resident/2 + 32<<20; now.Resident > most {
			out = append(out, fmt.Sprintf("%s has %d MiB resident, had %d: at most %d", name, now.Resident>>20, was.Resident>>20, most>>20))
		}
	}
	return out
}

// Sighting is a certificate that was in a Secret once.
type Sighting struct {
	// Epoch counts how often the cluster was put back to an earlier state: what was seen before may
	// have no successor.
	Epoch     int
	Leaf      string // fingerprint
	Key       string // fingerprint of its public key
	Issuer    string // common name
	IssuerKey string // key id
}

// See returns the sighting of a certificate.
func See(epoch int, leaf *x509.Certificate) Sighting {
	return Sighting{
		Epoch: epoch, Leaf: pki.Fingerprint(leaf), Key: fmt.Sprintf("%x", sha256.Sum256(leaf.RawSubjectPublicKeyInfo)),
		Issuer: leaf.Issuer.CommonName, IssuerKey: hex.EncodeToString(leaf.AuthorityKeyId),
	}
}

// Keys checks that no key is in two certificates, whenever and wherever these were.
func Keys(seen []Sighting) []string {
	leaves := values{}
	for _, s := range seen {
		leaves.add(s.Key, s.Leaf)
	}
	return leaves.several("one key is in several certificates")
}

// generation finds the number in the name of a CA.
var generation = regexp.MustCompile(`^servingcert CA (\d+) `)

// Generations checks that in no epoch two CAs with the number of one generation signed. It is
// given the key ids of interim CAs, which are named like the first generation and are none.
func Generations(seen []Sighting, interim map[string]bool) []string {
	signed := values{}
	for _, s := range seen {
		// Others are CAs from outside, or beside the generations.
		if m := generation.FindStringSubmatch(s.Issuer); m != nil && !interim[s.IssuerKey] {
			signed.add(fmt.Sprint(m[1], " ", s.Epoch), s.IssuerKey)
		}
	}
	return signed.several("several CAs signed as one generation")
}

// values are those of each key.
type values map[string]map[string]bool

func (v values) add(key, value string) {
	if v[key] == nil {
		v[key] = map[string]bool{}
	}
	v[key][value] = true
}

func (v values) several(what string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if len(v[key]) > 1 {
			out = append(out, fmt.Sprintf("%s: %s", what, strings.Join(slices.Sorted(maps.Keys(v[key])), ", ")))
		}
	}
	return out
}

// Certificates checks that each Service has exactly one Secret, which is valid at now: the key
// matches, the names are exactly those of the Service, the chain verifies under each bundle, and the
// condition names the leaf. A Secret without a Service is a violation too. The Services are those that
// ask for a Secret of their own and are to get it, and the Secrets those with the signer's label.
func Certificates(services []corev1.Service, secrets []corev1.Secret, bundles map[string]string, now time.Time) []string {
	var out []string
	rest := map[string]*corev1.Secret{}
	for i, s := range secrets {
		rest[s.Namespace+"/"+s.Name] = &secrets[i]
	}
	for i := range services {
		svc := &services[i]
		name := svc.Namespace + "/" + svc.Annotations[api.AnnotationSecretName]
		if err := judge(svc, rest[name], bundles, now); err != nil {
			out = append(out, fmt.Sprintf("Service %s/%s, Secret %s: %s", svc.Namespace, svc.Name, name, err))
		}
		delete(rest, name)
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		out = append(out, "Secret "+name+": no Service asks for it")
	}
	return out
}

// judge returns what is wrong with a Service and its Secret.
func judge(svc *corev1.Service, secret *corev1.Secret, bundles map[string]string, now time.Time) error {
	if secret == nil {
		return errors.New("it does not exist")
	}
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	key, err := pki.ParseKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	leaf, name := chain[0], svc.Name+"."+svc.Namespace+".svc"
	want := []string{name, name + ".cluster.local"}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		want = []string{"*." + name, "*." + name + ".cluster.local", name, name + ".cluster.local"}
	}
	ready := api.Condition(svc, api.ConditionReady)
	named, _ := state.LeafOf(svc)
	switch got := slices.Sorted(slices.Values(leaf.DNSNames)); {
	case !pki.KeyMatches(leaf, key):
		return errors.New("the key is not the certificate's")
	case !slices.Equal(got, want):
		return fmt.Errorf("the names are %v, want %v", got, want)
	case !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == svc.UID }):
		return errors.New("the Service does not own it")
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return errors.New("the Service is not Ready")
	case named != pki.Fingerprint(leaf):
		return fmt.Errorf("the condition names leaf %.12s, not %.12s", named, pki.Fingerprint(leaf))
	}
	for where, bundle := range bundles {
		if err := verify(leaf, chain[1:], bundle, now); err != nil {
			return fmt.Errorf("under the bundle of %s: %w", where, err)
		}
	}
	return nil
}

// verify checks that a client that trusts the bundle accepts the leaf.
func verify(leaf *x509.Certificate, chain []*x509.Certificate, bundle string, now time.Time) error {
	roots, err := pki.ParseBundle([]byte(bundle))
	if err != nil {
		return err
	}
	for _, root := range roots.Certificates() {
		if err = pki.VerifyServing(leaf, chain, root, now); err == nil {
			return nil
		}
	}
	return err
}
