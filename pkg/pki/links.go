package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// maxLinks is the most certificates after the leaf that Links identifies, and maxPaths the most paths.
const maxLinks, maxPaths = 16, 4

// Links identifies the certificates that a server sends after its leaf: 16 hexadecimal digits for each, separated by
// dots. What a CA renews with the same key has the same ones. Roots have none, as clients do not need them, nor have
// certificates that have expired at the given time, as clients do not accept them.
func Links(chain []*x509.Certificate, at time.Time) string {
	var links []string
	for _, c := range chain[:min(len(chain), maxLinks)] {
		if SelfIssued(c) || at.After(c.NotAfter) {
			continue
		}
		sum := sha256.New()
		for _, part := range [][]byte{c.RawSubject, c.RawSubjectPublicKeyInfo, c.RawIssuer} { // each tells its length
			sum.Write(part)
		}
		links = append(links, hex.EncodeToString(sum.Sum(nil)[:8]))
	}
	return strings.Join(links, ".")
}

// LinkedBy reports whether the Links of what a server sends have all of one of the paths (Verified), in any order; also
// if there is no path.
func LinkedBy(links string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(path string) bool {
		for link := range strings.SplitSeq(path, ".") {
			if !strings.Contains(links, link) {
				return false
			}
		}
		return true
	})
}

// between returns the certificates between leaf and root, which may be the same, of each of the chains.
func between(chains [][]*x509.Certificate) (out [][]*x509.Certificate) {
	for _, chain := range chains {
		out = append(out, chain[1:max(1, len(chain)-1)])
	}
	return out
}

// pathsOf returns the Links of each of the chains, sorted; none if one of them has none.
func pathsOf(chains [][]*x509.Certificate, at time.Time) (paths []string) {
	for _, chain := range chains {
		path := Links(chain, at)
		if path == "" {
			return nil
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return paths[:min(len(paths), maxPaths)]
}
