// Package formats lists the additional files that a Secret and a volume can hold: files that are made
// of certificate and key, for programs that do not read tls.crt and tls.key, or of the CA bundle,
// for programs that do not read ca.crt. Each format of the pair is one file of this package; those
// of the bundle are in trust.go.
//
// Files of the pair in a Secret are checked by decoding them where that is cheap. A keystore is not
// decoded: anyone may have written it, and its own parameters set the cost. It is checked by the
// digest that was recorded when it was written, [SaltedDigest]. Files of the bundle are not secret
// and have the same bytes in all Secrets, so a digest checks them too. The state that is kept of a
// Secret is a [Set] and that digest, never a file.
package formats

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Format is one kind of files.
type Format struct {
	// Name is a word of lower-case letters. In a program's entry {NAME} stands for the path of the
	// first of the Files.
	Name string
	// Word requests the format in an annotation that lists formats.
	Word string
	// Annotation, without the domain, requests the format if it is "true". It is empty for most
	// formats, and older than the annotation that lists formats.
	Annotation string
	// Variable is the environment variable with the path of the first of the Files; empty for none.
	Variable string
	// Files are the keys of the Secret, and the names of the files in a volume.
	Files []string
	// PrivateKey is true if one of the Files holds the private key.
	PrivateKey bool
	// Password is true if the Files are encrypted with the password of the Pair.
	Password bool
	// CredentialBundle is true if the file is podCertificate's credentialBundlePath, which a
	// kubelet that makes a pod's key writes.
	CredentialBundle bool
	// Salted is true if the Files have different bytes each time they are made, and are never
	// decoded.
	Salted bool
	// Make returns the contents of the Files. Make and Holds are nil if the Files are made of the
	// roots of the CA bundle.
	Make func(Pair) (map[string][]byte, error)
	// Holds reports whether the Files, all of which are in the data, hold the pair and nothing
	// else. Anyone may have written the data: the work must be bounded by its size. It returns
	// true for what Make returned for the pair. It is nil for a Salted format.
	Holds func(pair Pair, data map[string][]byte) bool
	// MakeRoots returns the content of the single file: the same bytes for the same roots and
	// password. It is nil for a format of the pair.
	MakeRoots func(roots pki.Bundle, password string) ([]byte, error)
}

// Pair is tls.crt and tls.key of a Secret in PEM: the certificate with its chain, and its key;
// and the password that encrypts files of the pair, empty for [DefaultPassword].
type Pair struct {
	Cert, Key []byte
	Password  string
}

// list has all formats. A Set has a bit for each, so the order means nothing outside a process.
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

// Asked returns the formats whose files a volume has only on request: all except the CA bundle in
// PEM, which has its own source and is in every volume.
func Asked() Set { return All() &^ Of(&CA) }

// Encrypted returns the formats that have a password.
func Encrypted() Set { return those(func(f *Format) bool { return f.Password }) }

// Salted returns the formats that are checked by [SaltedDigest].
func Salted() Set { return those(func(f *Format) bool { return f.Salted }) }

// CredentialBundles returns the formats that a kubelet makes; there is at most one.
func CredentialBundles() Set { return those(func(f *Format) bool { return f.CredentialBundle }) }

// OfRoots returns the formats that are made of the roots of the CA bundle, not of the pair.
func OfRoots() Set { return those(func(f *Format) bool { return f.MakeRoots != nil }) }

func those(are func(*Format) bool) (s Set) {
	for f := range All().Formats() {
		if are(f) {
			s |= Of(f)
		}
	}
	return s
}

// HoldsPrivateKey reports whether the file belongs to a format with the private key.
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

// Make returns the files of all formats of the set that are made of the pair, by name.
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

// MakeRoots returns the files of all formats of the set that are made of the roots, by name. They
// are shared by all callers and must not be changed.
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

// RootsDigest returns a digest of the files in the data that belong to formats of OfRoots, whatever
// their content; zero if there are none.
func RootsDigest(data map[string][]byte) (digest [sha256.Size]byte) {
	if sum := digestOf(data, OfRoots().Files()); sum != nil {
		copy(digest[:], sum)
	}
	return digest
}

// digestOf returns a SHA-256 of the named files that are in the data, and of the other parts; nil if
// there are no such files.
func digestOf(data map[string][]byte, names []string, of ...[]byte) []byte {
	h, some := sha256.New(), false
	write := func(part []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // separates the parts
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

// SaltedDigest returns what is recorded of the files of Salted formats in the data: a SHA-256, in
// hexadecimal, of the pair's certificates, the password and the files, a hyphen, and one of the files
// alone; empty if there are none. It reveals no more about the password than the file does.
func SaltedDigest(data map[string][]byte, pair Pair) string {
	names := Salted().Files()
	of := digestOf(data, names, pair.Cert, []byte(pair.password()))
	if of == nil {
		return ""
	}
	return hex.EncodeToString(of) + "-" + hex.EncodeToString(digestOf(data, names))
}

// Outdated returns the files in the data of a Secret that hold another certificate than the pair, sorted.
// Of Salted formats, these are files that have not changed since recorded, the SaltedDigest from when they
// were written.
func Outdated(data map[string][]byte, pair Pair, recorded string) (files []string) {
	leaf := pki.FirstCertificate(pair.Cert)
	for name, has := range map[string][]byte{CombinedFile: pki.FirstCertificate(data[CombinedFile]), DERCertFile: data[DERCertFile]} {
		if len(has) > 0 && !bytes.Equal(has, leaf) {
			files = append(files, name)
		}
	}
	now := SaltedDigest(data, pair)
	if _, alone, some := strings.Cut(now, "-"); some && now != recorded && strings.HasSuffix(recorded, "-"+alone) {
		for _, name := range Salted().Files() {
			if _, there := data[name]; there {
				files = append(files, name)
			}
		}
	}
	slices.Sort(files)
	return files
}

// HeldIn returns the formats whose files are all in the data of a Secret and hold the pair.
// recorded is the SaltedDigest from when the Salted ones were written.
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

// WithAny returns the formats that have a file among the names.
func WithAny(names []string) (found Set) {
	for f := range All().Formats() {
		if slices.ContainsFunc(f.Files, func(name string) bool { return slices.Contains(names, name) }) {
			found |= Of(f)
		}
	}
	return found
}
