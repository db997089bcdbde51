package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// bundle is a client's CA bundle: the roots of some generations. No generation stands for the
// root of an unknown CA.
type bundle struct{ roots []int }

// bundles are the bundles that clients can have during a succession: of one generation, of
// neighbouring generations, and of all generations since one.
func bundles() []bundle {
	return []bundle{
		{[]int{1}}, {[]int{1, 2}}, {[]int{2}}, {[]int{1, 2, 3}}, {[]int{2, 3}}, {[]int{3}},
		{[]int{1, 2, 3, 4}}, {[]int{2, 3, 4}}, {[]int{3, 4}}, {[]int{4}}, {[]int{4, 5}}, {nil},
	}
}

func (b bundle) String() string {
	if b.isStrangers() {
		return "an unknown CA's"
	}
	return "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(b.roots), " ", ","), "[]") + "}"
}

func (b bundle) isStrangers() bool   { return len(b.roots) == 0 }
func (b bundle) holds(root int) bool { return slices.Contains(b.roots, root) }

// isOfFew reports whether servers that differ only in details are tested with the bundle.
func (b bundle) isOfFew() bool {
	return slices.Contains([]string{"{1}", "{1,2}", "{1,2,3}", "{3}"}, b.String()) || b.isStrangers()
}

// exists reports whether the succession has all generations of the bundle.
func (b bundle) exists(s *succession) bool {
	return b.isStrangers() || slices.Max(b.roots) <= len(s.generations)
}

// verifies reports whether a client with the bundle must accept certificates of the given generation
// of the succession.
func (b bundle) verifies(s *succession, signing int, now time.Time) bool {
	return slices.ContainsFunc(b.roots, func(root int) bool { return s.reaches(signing, root, now) })
}

// trust is a bundle in files.
type trust struct {
	file  string   // PEM, as servingcert publishes it
	roots []string // a PEM file for each root of it
}

// trusts writes the bundles of a succession into dir, by their names.
func trusts(dir string, s, unknown *succession) (map[string]trust, error) {
	written := map[string]trust{}
	for _, b := range bundles() {
		if !b.exists(s) {
			continue
		}
		names, roots := []string{"root-of-an-unknown-ca"}, []*x509.Certificate{unknown.of(1).root}
		if !b.isStrangers() {
			names, roots = nil, nil
		}
		for _, n := range b.roots {
			names, roots = append(names, fmt.Sprintf("root%s-%d", s.name, n)), append(roots, s.of(n).root)
		}
		t := trust{file: filepath.Join(dir, "bundle-"+strings.Join(names, "-")+".pem")}
		if err := os.WriteFile(t.file, pki.NewBundle(roots...).PEM(), 0o644); err != nil {
			return nil, err
		}
		for i, root := range roots {
			file := filepath.Join(dir, names[i]+".pem")
			if err := os.WriteFile(file, pki.EncodeCertificates(root), 0o644); err != nil {
				return nil, err
			}
			t.roots = append(t.roots, file)
		}
		written[b.String()] = t
	}
	return written, nil
}
