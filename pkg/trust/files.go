package trust

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// MaxPublicRoots is the most bytes of the public roots in PEM. A ConfigMap has at most 1 MiB, and is
// to have them twice: in PEM, and in PKCS #12, which needs nine tenths of that.
const MaxPublicRoots = 384 << 10

// ParsePublicRoots reads the public roots that an operator gives.
func ParsePublicRoots(data []byte) (pki.Bundle, error) { return pki.ParseRoots(data, MaxPublicRoots) }

// Files is a set of the files with roots that a ConfigMap can have beside the CA bundle.
type Files uint8

// The files. Those with public roots exist only where an operator gives such roots.
const (
	FileTruststore Files = 1 << iota
	FilePublicBundle
	FilePublicTruststore

	filesPublic = FilePublicBundle | FilePublicTruststore
	filesAll    = FileTruststore | filesPublic
)

// file is what is known of one of them.
type file struct {
	file   Files
	name   string
	binary bool // it is in binaryData
}

// files are all of them, in order.
var files = []file{
	{FileTruststore, formats.TruststoreFile, true},
	{FilePublicBundle, formats.PublicBundleFile, false},
	{FilePublicTruststore, formats.PublicTruststoreFile, true},
}

// fileAnnotations are those that ask for files beside the bundle.
var fileAnnotations = []string{api.AnnotationFormats, api.AnnotationKeystorePassword, api.AnnotationTrust}

// FileAnnotations returns the annotations of a ConfigMap, or of a namespace for its ConfigMap
// servingcert-ca.crt, that ask for files beside the bundle.
func FileAnnotations() []string { return fileAnnotations }

// NamespaceRequest returns what is requested of ConfigMap servingcert-ca.crt of an opted-in
// namespace; its annotations are that of the ConfigMap and, where it has none, the namespace.
// The password is always the default: the webhook tells it to programs.
func NamespaceRequest(cm metav1.Object) Request {
	r := Request{Requested: true, Key: api.BundleKey}
	said := cm.GetAnnotations()
	r.addFiles(said)
	r.password = ""
	if said[api.AnnotationTrust] == string(api.TrustEnv) {
		r.ifPublic = filesPublic
	}
	return r
}

// AllFiles returns the request of a ConfigMap that may be asked to have any of the files.
func AllFiles() Request { return Request{Requested: true, Key: api.BundleKey, files: filesAll} }

// addFiles adds the files that annotation servingcert.dev/formats lists, and their password. What is
// wrong there keeps nothing else from being written.
func (r *Request) addFiles(annotations map[string]string) {
	if value, ok := annotations[api.AnnotationFormats]; ok {
		var unknown string
		for word := range strings.SplitSeq(value, ",") {
			word = strings.TrimSpace(word)
			if f, ok := fileNamed(word); ok {
				r.files |= f
			} else {
				unknown = cmp.Or(unknown, fmt.Sprintf("%q", api.Shorten(word, maxWord)))
			}
		}
		if unknown != "" {
			r.lacks = fmt.Sprintf("annotation %s: %s is not a file with roots: must be a comma-separated list of %s", api.AnnotationFormats, unknown, strings.Join(fileNames(), ", "))
		}
	}
	if value, ok := annotations[api.AnnotationKeystorePassword]; ok {
		if detail := formats.CheckPassword(value); detail != "" {
			r.lacks = cmp.Or(r.lacks, fmt.Sprintf("annotation %s: %d bytes: %s", api.AnnotationKeystorePassword, len(value), detail))
			r.files &^= FileTruststore | FilePublicTruststore
			return
		}
		r.password = value
	}
}

// maxWord is the most characters of a word that is no file that are repeated.
const maxWord = 40

// fileNamed returns the file of that name, none for that of the bundle, which is there anyway.
func fileNamed(name string) (Files, bool) {
	for _, f := range files {
		if f.name == name {
			return f.file, true
		}
	}
	return 0, name == api.BundleKey
}

func fileNames() []string {
	names := []string{api.BundleKey}
	for _, f := range files {
		names = append(names, f.name)
	}
	return names
}

// wants returns the files that the ConfigMap is to have, with what is known now.
func (r Request) wants(b Bundle) Files {
	wanted := r.files | r.ifPublic
	if !b.hasPublic() {
		wanted &^= filesPublic
	}
	return wanted
}

// Lacks says which part of the request cannot be followed, for people; "" if all of it can.
func (r Request) Lacks(b Bundle) string {
	if r.lacks != "" || r.files&filesPublic == 0 || b.hasPublic() {
		return r.lacks
	}
	return fmt.Sprintf("annotation %s: %s and %s need public roots, and the rotator has none: set its --public-roots (value trust.publicRoots.configMap of the chart)",
		api.AnnotationFormats, formats.PublicBundleFile, formats.PublicTruststoreFile)
}

// content is what a key of a ConfigMap is to hold.
type content struct {
	key    string
	binary bool
	made   bool // of the bundle
	value  []byte
	digest string // as digest
}

// contents returns what the keys of the ConfigMap are to hold, the bundle first.
func (r Request) contents(b Bundle) ([]content, error) {
	out := []content{b.bundle(r.Key)}
	wanted := r.wants(b)
	for _, f := range files {
		if wanted&f.file == 0 {
			continue
		}
		c, err := b.made.file(f.file, r.password)
		if err != nil {
			return nil, err
		}
		out = append(out, content{f.name, f.binary, true, c.Content, digestOf(c.Sum)})
	}
	return out, nil
}

// made are the files that are made of a bundle. They are the same for all ConfigMaps.
type made struct {
	roots  formats.Roots
	public formats.Roots // with the roots; empty if there are no public ones
	pem    formats.File  // of the public ones
}

// newMade returns what is made of the roots and the public ones, of which there may be none.
func newMade(roots, public pki.Bundle) *made {
	m := &made{roots: formats.NewRoots(roots)}
	if certs := public.Certificates(); len(certs) > 0 {
		m.public = formats.NewRoots(pki.NewBundle(append(certs, roots.Certificates()...)...))
		m.pem = formats.NewFile(m.public.PEM())
	}
	return m
}

func (m *made) file(f Files, password string) (formats.File, error) {
	switch f {
	case FileTruststore:
		return m.roots.Truststore(password)
	case FilePublicTruststore:
		return m.public.Truststore(password)
	}
	return m.pem, nil
}
