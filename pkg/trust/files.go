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

// MaxPublicRoots is the largest size in bytes of the public roots in PEM. A ConfigMap has at most
// 1 MiB and holds them twice: in PEM, and in PKCS #12, which needs nine tenths of that.
const MaxPublicRoots = 384 << 10

// ParsePublicRoots reads the public roots that the operator configured.
func ParsePublicRoots(data []byte) (pki.Bundle, error) { return pki.ParseRoots(data, MaxPublicRoots) }

// Files is a set of files with roots that a ConfigMap can hold in addition to the CA bundle.
type Files uint8

// The files. Those with public roots exist only if the operator configured public roots.
const (
	FileTruststore Files = 1 << iota
	FilePublicBundle
	FilePublicTruststore

	filesPublic = FilePublicBundle | FilePublicTruststore
	filesAll    = FileTruststore | filesPublic
)

// file describes one of the Files.
type file struct {
	file   Files
	name   string
	binary bool // it is in binaryData
}

// files lists all, in order.
var files = []file{
	{FileTruststore, formats.TruststoreFile, true},
	{FilePublicBundle, formats.PublicBundleFile, false},
	{FilePublicTruststore, formats.PublicTruststoreFile, true},
}

// fileAnnotations are the annotations that request additional files.
var fileAnnotations = []string{api.AnnotationFormats, api.AnnotationKeystorePassword, api.AnnotationTrust}

// FileAnnotations returns the annotations that request additional files, on a ConfigMap, or on a
// namespace for its ConfigMap servingcert-ca.crt.
func FileAnnotations() []string { return fileAnnotations }

// NamespaceRequest returns the request for ConfigMap servingcert-ca.crt of an opted-in namespace.
// cm has the annotations of the ConfigMap or, where those are absent, of the namespace. The
// password is always the default, which the webhook gives to programs.
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

// AllFiles returns a request for all files.
func AllFiles() Request { return Request{Requested: true, Key: api.BundleKey, files: filesAll} }

// addFiles adds the files that annotation servingcert.dev/formats lists, and their password. An
// error in one of them does not affect the others.
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

// maxWord is how many characters of an unknown word a message quotes.
const maxWord = 40

// fileNamed returns the file with the name, and 0 for the bundle's, which is always there.
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

// wants returns the files that the ConfigMap must have with this bundle.
func (r Request) wants(b Bundle) Files {
	wanted := r.files | r.ifPublic
	if !b.hasPublic() {
		wanted &^= filesPublic
	}
	return wanted
}

// Lacks returns which part of the request cannot be followed, for people; "" if there is none.
func (r Request) Lacks(b Bundle) string {
	if r.lacks != "" || r.files&filesPublic == 0 || b.hasPublic() {
		return r.lacks
	}
	return fmt.Sprintf("annotation %s: %s and %s need public roots, and the rotator has none: set its --public-roots (value trust.publicRoots.configMap of the chart)",
		api.AnnotationFormats, formats.PublicBundleFile, formats.PublicTruststoreFile)
}

// content is the wanted value of a key of a ConfigMap.
type content struct {
	key    string
	binary bool
	made   bool // a file that is made of the bundle
	value  []byte
	digest string // of value, see digest
}

// contents returns the wanted content of the ConfigMap, the bundle first.
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

// made holds the files that are made of a bundle. They are the same for all ConfigMaps.
type made struct {
	roots  formats.Roots
	public formats.Roots // includes roots; empty if there are no public roots
	pem    formats.File  // of public
}

// newMade returns the files of the roots and of the public roots, which may be empty.
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
