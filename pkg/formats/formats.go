// Package formats is the list of what a Secret, and a volume with its files, can hold beside the
// pair: further files that follow from certificate and key, for programs that do not read tls.crt
// and tls.key, or from the CA bundle, for those that do not read ca.crt. Each format of the pair is
// one file of this package; those of the bundle are in trust.go.
//
// What a Secret holds of the pair is judged by decoding it where that is cheap. A keystore is not
// decoded: it is of anybody's making, and says itself how much work that is. It is judged by the
// digest that was recorded when it was written, [SaltedDigest]. What follows from the bundle is the
// same in all Secrets and not secret, so it is made to be the same bytes each time, and a digest
// judges it. What is remembered of a Secret is a [Set] and that digest, never a file.
package formats

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Format is one kind of files.
type Format struct {
	// Name is a word of lower-case letters. A program's entry says {NAME} for the path of the
	// first of the Files.
	Name string
	// Word asks for the format in an annotation that lists formats.
	Word string
	// Annotation asks for the format where it is "true", and is empty for most: it was there
	// before the one that lists formats. The domain before it is pkg/api's.
	Annotation string
	// Variable is the environment variable with the path of the first of the Files; empty for none.
	Variable string
	// Files are the keys of the Secret, and the names of the files in a volume.
	Files []string
	// PrivateKey is true if one of the Files holds the private key.
	PrivateKey bool
	// Password is true if the Files are encrypted with that of the Pair.
	Password bool
	// CredentialBundle is true if a kubelet that makes a pod's key writes the file: that of
	// podCertificate's credentialBundlePath.
	CredentialBundle bool
	// Salted is true if the Files are other bytes each time they are made, and are never decoded.
	Salted bool
	// Make returns the contents of the Files. It is nil, as Holds is, if they do not follow from
	// the pair but from the roots of the CA bundle.
	Make func(Pair) (map[string][]byte, error)
	// Holds reports whether the Files, which are all in the data, hold that pair and nothing
	// else. The data may be of anybody's making: the work must be bounded by its size. It is true
	// of what Make returned for the pair. It is nil for a Salted format.
	Holds func(pair Pair, data map[string][]byte) bool
	// MakeRoots returns the content of the only one of the Files: the same bytes for the same
	// roots and password. It is nil for a format of the pair.
	MakeRoots func(roots pki.Bundle, password string) ([]byte, error)
}

// Pair is what is under tls.crt and tls.key of a Secret, in PEM: the certificate with what is
// served after it, and its key; and with which password files of it are encrypted, empty for
// [DefaultPassword].
type Pair struct {
	Cert, Key []byte
	Password  string
}

// list is the list. A Set has a bit for each, so its order means nothing outside a process.
var list = []*Format{&Combined, &Keystore, &PBMAC1, &DER, &CA, &Truststore}

// Set is a set of formats.
type Set uint16

// Of returns the set of the formats.
func Of(formats ...*Format) (s Set) {
	for _, f := range formats {
		s |= 1 << slices.Index(list, f)
	}
	return s
}

// All returns the set of all formats.
func All() Set { return 1<<len(list) - 1 }

// Asked returns the formats whose files a volume has only where they are asked for: all but the CA
// bundle in PEM, which comes from elsewhere, and is in every volume.
func Asked() Set { return All() &^ Of(&CA) }

// Encrypted returns the formats that have a password.
func Encrypted() Set { return those(func(f *Format) bool { return f.Password }) }

// Salted returns the formats that are judged by [SaltedDigest].
func Salted() Set { return those(func(f *Format) bool { return f.Salted }) }

// CredentialBundles returns the formats that a kubelet makes; there is at most one.
func CredentialBundles() Set { return those(func(f *Format) bool { return f.CredentialBundle }) }

// OfRoots returns the formats that follow from the roots of the CA bundle, and not from the pair.
func OfRoots() Set { return those(func(f *Format) bool { return f.MakeRoots != nil }) }

func those(are func(*Format) bool) (s Set) {
	for f := range All().Formats() {
		if are(f) {
			s |= Of(f)
		}
	}
	return s
}

// HoldsPrivateKey reports whether the file is one of a format with the private key.
func HoldsPrivateKey(file string) bool {
	for f := range All().Formats() {
		if f.PrivateKey && slices.Contains(f.Files, file) {
			return true
		}
	}
	return false
}

// Formats yields the formats of the set, in the order of the list.
func (s Set) Formats() iter.Seq[*Format] {
	return func(yield func(*Format) bool) {
		for i, f := range list {
			if s&(1<<i) != 0 && !yield(f) {
				return
			}
		}
	}
}

// Has reports whether the format is in the set.
func (s Set) Has(f *Format) bool { return s&Of(f) != 0 }

// Files returns the names of the files of all formats of the set, sorted.
func (s Set) Files() []string {
	var files []string
	for f := range s.Formats() {
		files = append(files, f.Files...)
	}
	slices.Sort(files)
	return files
}

// Make returns the files of all formats of the set that follow from the pair, by name.
func (s Set) Make(pair Pair) (map[string][]byte, error) {
	files := map[string][]byte{}
	for f := range (s &^ OfRoots()).Formats() {
		made, err := f.Make(pair)
		if err != nil {
			return nil, fmt.Errorf("make %q of the pair: %w", f.Files, err)
		}
		for name, content := range made {
			files[name] = content
		}
	}
	return files, nil
}

// MakeRoots returns the files of all formats of the set that follow from the roots, by name. They
// must not be changed: all who ask for them get the same.
func (s Set) MakeRoots(roots pki.Bundle, password string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for f := range (s & OfRoots()).Formats() {
		made, err := f.MakeRoots(roots, password)
		if err != nil {
			return nil, fmt.Errorf("make %s of the CA bundle: %w", f.Files[0], err)
		}
		files[f.Files[0]] = made
	}
	return files, nil
}

// RootsDigest identifies the files in the data that are of formats which follow from the roots: those
// that MakeRoots returns, or whatever somebody put there; zero if there are none.
func RootsDigest(data map[string][]byte) (digest [sha256.Size]byte) {
	if sum := digestOf(data, OfRoots().Files()); sum != nil {
		copy(digest[:], sum)
	}
	return digest
}

// digestOf returns a SHA-256 of those of the files that are in the data, and of what else they are made of;
// nil if none is.
func digestOf(data map[string][]byte, names []string, of ...[]byte) []byte {
	h, some := sha256.New(), false
	write := func(part []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // where one ends and the next begins
		h.Write(part)
	}
	for _, name := range names {
		if content, there := data[name]; there {
			some = true
			write([]byte(name))
			write(content)
		}
	}
	if !some {
		return nil
	}
	for _, part := range of {
		write(part)
	}
	return h.Sum(nil)
}

// SaltedDigest returns what is recorded of the files in the data that are of Salted formats, made of
// that pair: a SHA-256, in hexadecimal, of the certificates, the password and the files; empty if
// there are none. It says no more about the password than the file does.
func SaltedDigest(data map[string][]byte, pair Pair) string {
	return hex.EncodeToString(digestOf(data, Salted().Files(), pair.Cert, []byte(pair.password())))
}

// HeldIn returns the formats of the pair of which the data of a Secret has all files, and which hold
// it. For the Salted ones recorded is the SaltedDigest of when they were written.
func HeldIn(data map[string][]byte, pair Pair, recorded string) (held Set) {
	for f := range (All() &^ OfRoots()).Formats() {
		missing := func(name string) bool { _, there := data[name]; return !there }
		switch {
		case slices.ContainsFunc(f.Files, missing):
		case f.Salted && SaltedDigest(data, pair) == recorded, !f.Salted && f.Holds(pair, data):
			held |= Of(f)
		}
	}
	return held
}

// WithAny returns the formats of which any file is among the names.
func WithAny(names []string) (found Set) {
	for f := range All().Formats() {
		if slices.ContainsFunc(f.Files, func(name string) bool { return slices.Contains(names, name) }) {
			found |= Of(f)
		}
	}
	return found
}
