package ca

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// maxExtraRoots bounds the bundle that every client reads.
const maxExtraRoots = 20

// ExtraRoot is a root that clients must trust in addition to those of the CA.
type ExtraRoot struct {
	Key string // of ConfigMap api.ExtraRootsName
	*x509.Certificate
}

// String returns the element of api.CAStatus.ExtraRoots.
func (r ExtraRoot) String() string { return r.Key + " " + pki.Fingerprint(r.Certificate) }

// ReadExtraRoots reads the data of ConfigMap api.ExtraRootsName: certificates of CAs in PEM, under
// any keys. For a key that is not valid, it returns the roots that last, the published status, has
// for it. If there are too many roots, those that are published stay. The error is about the first
// such key, or the number.
func ReadExtraRoots(data map[string]string, last *api.CAStatus) ([]ExtraRoot, error) {
	published := publishedRoots(last)
	var roots []ExtraRoot
	var wrong error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		bundle, err := pki.ParseBundle([]byte(data[key]))
		if err != nil {
			wrong = cmp.Or(wrong, fmt.Errorf("key %s: must hold certificates of CAs in PEM: %w", key, err))
			roots = append(roots, published[key]...)
			continue
		}
		for _, c := range bundle.Certificates() {
			roots = append(roots, ExtraRoot{key, c})
		}
	}
	if n := len(pki.NewBundle(certificates(roots)...).Certificates()); n > maxExtraRoots {
		wrong = fmt.Errorf("holds %d certificates: must hold at most %d", n, maxExtraRoots)
		roots = firstRoots(roots, published)
	}
	return roots, wrong
}

// publishedRoots returns the extra roots in the bundle of a status, by key.
func publishedRoots(status *api.CAStatus) map[string][]ExtraRoot {
	if status == nil || len(status.ExtraRoots) == 0 {
		return nil
	}
	bundle, err := pki.ParseBundle([]byte(status.Bundle))
	if err != nil {
		return nil
	}
	published := map[string][]ExtraRoot{}
	for _, c := range bundle.Certificates() {
		for _, element := range status.ExtraRoots {
			if key, _, _ := strings.Cut(element, " "); element == (ExtraRoot{key, c}).String() {
				published[key] = append(published[key], ExtraRoot{key, c})
			}
		}
	}
	return published
}

// firstRoots returns the roots of maxExtraRoots certificates, those that are published first.
func firstRoots(roots []ExtraRoot, published map[string][]ExtraRoot) []ExtraRoot {
	isNew := func(r ExtraRoot) int {
		if slices.ContainsFunc(published[r.Key], func(p ExtraRoot) bool { return p.Equal(r.Certificate) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(roots, func(a, b ExtraRoot) int { return isNew(a) - isNew(b) })
	kept := map[string]bool{}
	return slices.DeleteFunc(roots, func(r ExtraRoot) bool {
		if len(kept) < maxExtraRoots {
			kept[string(r.Raw)] = true
		}
		return !kept[string(r.Raw)]
	})
}

func certificates(roots []ExtraRoot) []*x509.Certificate {
	certs := make([]*x509.Certificate, len(roots))
	for i, r := range roots {
		certs[i] = r.Certificate
	}
	return certs
}

// elements returns api.CAStatus.ExtraRoots.
func elements(roots []ExtraRoot) []string {
	var out []string
	for _, r := range roots {
		out = append(out, r.String())
	}
	slices.Sort(out)
	return out
}

// bundle returns what clients must trust at now: [State.Bundle] and the extra roots.
func (s State) bundle(extra []ExtraRoot, now time.Time) pki.Bundle {
	return pki.NewBundle(append(s.Bundle(now).Certificates(), pki.NewBundle(certificates(extra)...).Unexpired(now).Certificates()...)...)
}
