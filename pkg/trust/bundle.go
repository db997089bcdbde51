package trust

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Bundle is the CA bundle that every target must hold.
type Bundle struct {
	PEM  []byte // never empty
	Hash string // as pki.Bundle.Hash
	// Until is when the first of its certificates expires. The bundle then changes,
	// although the source does not.
	Until time.Time

	roots pki.Bundle
	made  *made // the files that are made of it; nil if none is requested
}

// hasPublic reports whether there are files with public roots.
func (b Bundle) hasPublic() bool { return b.made != nil && len(b.made.public.Certificates()) > 0 }

// bundle returns the content of a key that holds the bundle itself.
func (b Bundle) bundle(key string) content {
	return content{key: key, value: b.PEM, digest: digest(string(b.PEM))}
}

// ReadSource returns the bundle to distribute at now from the source ConfigMap, which is
// nil if it does not exist. An error says why there is none.
//
// The signer writes the bundle and its hash together: a root that someone adds to
// the bundle by hand is not distributed before the signer removes it.
func ReadSource(cm *corev1.ConfigMap, now time.Time) (Bundle, error) {
	return readSource(cm, api.BundleKey, api.CABundleHash, now)
}

// ReadOwnSource is [ReadSource] for clients of servingcert's own namespace. While the CA
// is lost, that namespace has certificates of an interim CA, which nothing else trusts.
func ReadOwnSource(cm *corev1.ConfigMap, now time.Time) (Bundle, error) {
	if cm == nil || cm.Data[api.CAOwnBundle] == "" {
		return ReadSource(cm, now)
	}
	return readSource(cm, api.CAOwnBundle, api.CAOwnBundleHash, now)
}

// readSource returns the bundle under key; its hash is under hashKey.
func readSource(cm *corev1.ConfigMap, key, hashKey string, now time.Time) (Bundle, error) {
	if cm == nil {
		return Bundle{}, fmt.Errorf("ConfigMap %s does not exist: the signer creates it when it has a CA", api.CAStatusName)
	}
	data, ok := cm.Data[key]
	if !ok {
		return Bundle{}, fmt.Errorf("ConfigMap %s has no key %s", api.CAStatusName, key)
	}
	all, err := pki.ParseBundle([]byte(data))
	if err != nil {
		return Bundle{}, fmt.Errorf("ConfigMap %s, key %s: %w", api.CAStatusName, key, err)
	}
	if said, ok := cm.Data[hashKey]; ok && said != all.Hash() {
		return Bundle{}, fmt.Errorf("ConfigMap %s: key %s does not match the hash in key %s: one of them was changed", api.CAStatusName, key, hashKey)
	}
	current := all.Unexpired(now)
	certs := current.Certificates()
	if len(certs) == 0 {
		return Bundle{}, fmt.Errorf("ConfigMap %s, key %s: every certificate has expired", api.CAStatusName, key)
	}
	until := certs[0].NotAfter
	for _, c := range certs {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return Bundle{PEM: current.PEM(), Hash: current.Hash(), Until: until, roots: current}, nil
}

// changesIn returns the time until the bundle changes although the source does not: one
// second after Until, as a certificate is valid up to and including its NotAfter.
func (b Bundle) changesIn(now time.Time) time.Duration { return b.Until.Sub(now) + time.Second }

// Sources caches the bundle of the source: every target holds the same one, and parsing the
// certificates for each target would cost more than the rest of its decision. It is safe for
// concurrent use.
type Sources struct {
	// Public are the public roots that the operator configured; may be empty.
	Public pki.Bundle

	mu      sync.Mutex
	uid     types.UID
	version string
	read    map[bool]sourced // by whether it is what ReadOwnSource returns
}

// sourced is the result of reading the source at a time.
type sourced struct {
	at     time.Time
	bundle Bundle
	err    error
}

// Read is [ReadSource], or [ReadOwnSource] if own.
func (s *Sources) Read(cm *corev1.ConfigMap, own bool, now time.Time) (Bundle, error) {
	read := ReadSource
	if own {
		read = ReadOwnSource
	}
	if cm == nil || cm.ResourceVersion == "" {
		b, err := read(cm, now)
		b.made = newMade(b.roots, s.Public)
		return b, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil || s.uid != cm.UID || s.version != cm.ResourceVersion {
		s.uid, s.version, s.read = cm.UID, cm.ResourceVersion, map[bool]sourced{}
	}
	if known, ok := s.read[own]; ok && known.holdsAt(now) {
		return known.bundle, known.err
	}
	known := sourced{at: now}
	known.bundle, known.err = read(cm, now)
	known.bundle.made = newMade(known.bundle.roots, s.Public)
	s.read[own] = known
	return known.bundle, known.err
}

// holdsAt reports whether reading the source again would give the same result: no certificate
// has expired since. A source that could not be read stays unreadable.
func (s sourced) holdsAt(now time.Time) bool {
	return !now.Before(s.at) && (s.err != nil || !now.After(s.bundle.Until))
}
