package ca

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// maxExtraRoots bounds the bundle that every client reads.
const maxExtraRoots = 20

// ParseExtraRoots reads the data of ConfigMap api.ExtraRootsName: certificates of CAs
// in PEM, under any keys. If a key is not valid, it returns the certificates of the
// others, and an error that names the first such key.
func ParseExtraRoots(data map[string]string) ([]*x509.Certificate, error) {
	var roots []*x509.Certificate
	var wrong error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		bundle, err := pki.ParseBundle([]byte(data[key]))
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("key %s: must hold certificates of CAs in PEM: %w", key, err)
		}
		roots = append(roots, bundle.Certificates()...)
	}
	roots = pki.NewBundle(roots...).Certificates()
	if len(roots) > maxExtraRoots {
		return roots[:maxExtraRoots], fmt.Errorf("holds %d certificates: must hold at most %d", len(roots), maxExtraRoots)
	}
	return roots, wrong
}

// bundle returns what clients must trust at now: [State.Bundle] and the extra roots.
func (s State) bundle(extra []*x509.Certificate, now time.Time) pki.Bundle {
	return pki.NewBundle(append(s.Bundle(now).Certificates(), pki.NewBundle(extra...).Unexpired(now).Certificates()...)...)
}
