package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// The keys of the CA Secret, which a person can read and back up with kubectl:
//
//	generation-1.crt        the root, PEM
//	generation-1.key        the key that signs leaves, PKCS #8 in PEM; absent once erased
//	generation-2.cross.crt  generation 2's key signed by generation 1, PEM
//	generation-3.chain.crt  the intermediates between leaf and root of an imported or remote CA, PEM
//	state.json              the generations, which one signs, and since when
const (
	keyState         = "state.json"
	generationPrefix = "generation-"
)

func certificateKey(n int) string { return fmt.Sprintf("%s%d.crt", generationPrefix, n) }
func privateKey(n int) string     { return fmt.Sprintf("%s%d.key", generationPrefix, n) }
func crossKey(n int) string       { return fmt.Sprintf("%s%d.cross.crt", generationPrefix, n) }
func chainKey(n int) string       { return fmt.Sprintf("%s%d.chain.crt", generationPrefix, n) }

// stateVersion is the format version of state.json. A newer servingcert writes a
// higher one, with content that this version would lose. A new field needs a higher
// version, and a release that reads it before one that writes it.
const stateVersion = 1

// errNewerVersion reports that a newer version of servingcert wrote the Secret.
var errNewerVersion = errors.New("was written by a newer version of servingcert")

type stateJSON struct {
	Version     int              `json:"version"`
	Signing     int              `json:"signing"`
	Rotation    *Rotation        `json:"rotation,omitempty"`
	Import      string           `json:"import,omitempty"`
	Generations []generationJSON `json:"generations"`
}

type generationJSON struct {
	Number     int       `json:"number"`
	Origin     Origin    `json:"origin,omitempty"`
	Domain     string    `json:"domain,omitempty"`
	Why        string    `json:"why,omitempty"`
	MadeAt     time.Time `json:"madeAt,omitzero"`
	TrustedAt  time.Time `json:"trustedAt,omitzero"`
	SignsSince time.Time `json:"signsSince,omitzero"`
	UsedUntil  time.Time `json:"usedUntil,omitzero"`
	Retired    bool      `json:"retired,omitempty"`
}

// EncodeState returns the state as data of the CA Secret, which ParseState reads.
// Equal states give equal bytes. It returns an error if the state is not valid.
func EncodeState(s State) (map[string][]byte, error) {
	if err := validate(s); err != nil {
		return nil, fmt.Errorf("CA state: %w", err)
	}
	data := map[string][]byte{}
	file := stateJSON{Version: stateVersion, Signing: s.Signing, Import: s.Import}
	if s.Rotation != (Rotation{}) {
		file.Rotation = &s.Rotation
	}
	for _, g := range s.Generations {
		file.Generations = append(file.Generations, generationJSON{
			Number: g.Number, Origin: g.Origin, Domain: g.Domain, Why: g.Why,
			MadeAt: g.MadeAt, TrustedAt: g.TrustedAt, SignsSince: g.SignsSince, UsedUntil: g.UsedUntil, Retired: g.Retired,
		})
		data[certificateKey(g.Number)] = pki.EncodeCertificates(g.Root)
		if len(g.Intermediates) > 0 {
			data[chainKey(g.Number)] = pki.EncodeCertificates(g.Intermediates...)
		}
		if g.Cross != nil {
			data[crossKey(g.Number)] = pki.EncodeCertificates(g.Cross)
		}
		if g.Key != nil {
			pem, err := pki.EncodeKey(g.Key)
			if err != nil {
				return nil, fmt.Errorf("CA state: %s: %w", privateKey(g.Number), err)
			}
			data[privateKey(g.Number)] = pem
		}
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("CA state: %s: %w", keyState, err)
	}
	data[keyState] = append(text, '\n')
	return data, nil
}

// ParseState reads the data of the CA Secret. Every error names the corrupt key and
// what is wrong; none contains private key material. Keys other than state.json and
// those that start with "generation-" are ignored.
func ParseState(data map[string][]byte) (State, error) {
	file, err := parseStateJSON(data[keyState])
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", keyState, err)
	}
	s := State{Signing: file.Signing, Import: file.Import}
	if file.Rotation != nil {
		s.Rotation = *file.Rotation
	}
	known := map[string]bool{}
	for _, entry := range file.Generations {
		g, err := parseGeneration(entry, data)
		if err != nil {
			return State{}, err
		}
		s.Generations = append(s.Generations, g)
		for _, key := range []string{certificateKey(g.Number), privateKey(g.Number), crossKey(g.Number), chainKey(g.Number)} {
			known[key] = true
		}
	}
	if err := validate(s); err != nil {
		return State{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if strings.HasPrefix(key, generationPrefix) && !known[key] {
			return State{}, fmt.Errorf("%s: must belong to a generation that %s lists", key, keyState)
		}
	}
	return s, nil
}

func parseGeneration(entry generationJSON, data map[string][]byte) (Generation, error) {
	g := Generation{
		Number: entry.Number, Origin: entry.Origin, Domain: entry.Domain, Why: entry.Why, Retired: entry.Retired,
		MadeAt: entry.MadeAt.UTC(), TrustedAt: entry.TrustedAt.UTC(), SignsSince: entry.SignsSince.UTC(), UsedUntil: entry.UsedUntil.UTC(),
	}
	var err error
	if g.Root, err = parseOne(data, certificateKey(g.Number)); err != nil {
		return Generation{}, err
	}
	if g.Cross, err = parseOne(data, crossKey(g.Number)); err != nil {
		return Generation{}, err
	}
	if pem, ok := data[chainKey(g.Number)]; ok {
		if g.Intermediates, err = pki.ParseCertificates(pem); err != nil {
			return Generation{}, fmt.Errorf("%s: must hold certificates in PEM", chainKey(g.Number))
		}
	}
	if pem, ok := data[privateKey(g.Number)]; ok {
		if g.Key, err = pki.ParseKey(pem); err != nil {
			return Generation{}, fmt.Errorf("%s: must hold one private key in PEM (PKCS #8)", privateKey(g.Number))
		}
	}
	return g, nil
}

// parseOne reads the one certificate under key; nil if the key is absent. Errors do
// not include the cause: the bytes may be anything, even a misplaced private key.
func parseOne(data map[string][]byte, key string) (*x509.Certificate, error) {
	pem, ok := data[key]
	if !ok {
		return nil, nil
	}
	certs, err := pki.ParseCertificates(pem)
	if err != nil {
		return nil, fmt.Errorf("%s: must hold one certificate in PEM", key)
	}
	if len(certs) != 1 {
		return nil, fmt.Errorf("%s: must hold one certificate, holds %d", key, len(certs))
	}
	return certs[0], nil
}

// parseStateJSON is strict: the next write would lose unknown fields. As in parseOne,
// errors contain nothing of the input except numbers.
func parseStateJSON(data []byte) (stateJSON, error) {
	if len(data) == 0 {
		return stateJSON{}, errors.New("missing")
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return stateJSON{}, errors.New("must hold the JSON that servingcert writes")
	}
	switch {
	case version.Version > stateVersion:
		return stateJSON{}, fmt.Errorf("%w: its format is %d, and this version reads format %d", errNewerVersion, version.Version, stateVersion)
	case version.Version != stateVersion:
		return stateJSON{}, fmt.Errorf("version %d: must be %d, which this version of servingcert reads", version.Version, stateVersion)
	}
	var file stateJSON
	if json.Unmarshal(data, &file) != nil {
		return stateJSON{}, errors.New("must hold the JSON that servingcert writes")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if decoder.Decode(new(stateJSON)) != nil {
		return stateJSON{}, fmt.Errorf("%w: it has a field that this version does not know", errNewerVersion)
	}
	numbers := map[int]bool{}
	for _, g := range file.Generations {
		if numbers[g.Number] {
			return stateJSON{}, fmt.Errorf("generation %d must be listed once", g.Number)
		}
		numbers[g.Number] = true
	}
	return file, nil
}

// merged returns the new data of the Secret: the state's keys from fresh, and all
// others from old.
func merged(old, fresh map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range old {
		if !isStateKey(key) {
			out[key] = slices.Clone(value)
		}
	}
	maps.Copy(out, fresh)
	return out
}

// setAsidePrefix starts the keys of data that was set aside.
const setAsidePrefix = "replaced-by-"

// setAside returns the data of a corrupt Secret under keys that name the generation
// that replaces it: nothing that might still be useful is lost.
func setAside(data map[string][]byte, by int) map[string][]byte {
	kept := map[string][]byte{}
	for key, value := range data {
		if isStateKey(key) {
			kept[fmt.Sprintf("%s%d-%s", setAsidePrefix, by, key)] = value
		}
	}
	return kept
}

func isStateKey(key string) bool {
	return key == keyState || strings.HasPrefix(key, generationPrefix)
}
