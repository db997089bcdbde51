package invariant

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Sighting is a certificate that was in a Secret once.
type Sighting struct {
	// Epoch counts how often the cluster was put back to an earlier state: what was seen
	// before may have no successor.
	Epoch     int
	Secret    string // NAMESPACE/NAME
	Leaf      string // fingerprint
	Key       string // fingerprint of its public key
	Issuer    string // common name
	IssuerKey string // key id
}

// See returns the sighting of a certificate.
func See(epoch int, secret string, leaf *x509.Certificate) Sighting {
	key := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return Sighting{
		Epoch: epoch, Secret: secret, Leaf: pki.Fingerprint(leaf), Key: hex.EncodeToString(key[:]),
		Issuer: leaf.Issuer.CommonName, IssuerKey: hex.EncodeToString(leaf.AuthorityKeyId),
	}
}

// Keys checks that no key is in two certificates, whenever and wherever these were seen.
func Keys(seen []Sighting) []string {
	leaves := map[string]map[string]string{}
	for _, s := range seen {
		if leaves[s.Key] == nil {
			leaves[s.Key] = map[string]string{}
		}
		leaves[s.Key][s.Leaf] = s.Secret
	}
	var out []string
	for _, of := range leaves {
		if len(of) > 1 {
			out = append(out, fmt.Sprintf("one key is in %d certificates, of %s", len(of), strings.Join(slices.Compact(slices.Sorted(maps.Values(of))), " and ")))
		}
	}
	slices.Sort(out)
	return out
}

// generation finds the number in the name of a CA.
var generation = regexp.MustCompile(`^servingcert CA (\d+) `)

// Generations checks that in no epoch two CAs with the number of one generation signed. It is
// given the key ids of interim CAs, which are named like the first generation and are none.
func Generations(seen []Sighting, interim map[string]bool) []string {
	signed := map[string]map[string]bool{}
	for _, s := range seen {
		m := generation.FindStringSubmatch(s.Issuer)
		if m == nil || interim[s.IssuerKey] {
			continue // a CA from outside, or one beside the generations
		}
		number := fmt.Sprintf("generation %s, epoch %d", m[1], s.Epoch)
		if signed[number] == nil {
			signed[number] = map[string]bool{}
		}
		signed[number][s.IssuerKey] = true
	}
	var out []string
	for number, keys := range signed {
		if len(keys) > 1 {
			out = append(out, fmt.Sprintf("%s: %d CAs signed", number, len(keys)))
		}
	}
	slices.Sort(out)
	return out
}
