package volume

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// Files are the files that programs need in addition to the pair and the CA bundle.
type Files struct {
	Files   map[string]string // by name in the directory: a key of the Secret, or ca.crt
	Config  map[string]string // contents, by name in the directory
	Formats formats.Set       // formats whose files are in the directory
}

// projected is one file of a volume: a key of the Secret, the CA bundle, or the value of an
// annotation.
type projected struct{ path, key, annotation string }

// paths returns the files in the order of the volume.
func (f Files) paths() []projected {
	if f.Formats == 0 && len(f.Files)+len(f.Config) == 0 {
		return nil // most programs need nothing more
	}
	var out []projected
	for _, name := range f.Formats.Files() {
		out = append(out, projected{path: name, key: name})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Files)) {
		out = append(out, projected{path: name, key: f.Files[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Config)) {
		out = append(out, projected{path: name, annotation: "metadata.annotations['" + api.AnnotationFilePrefix + name + "']"})
	}
	return out
}

// further returns the sources of the further files that are not in the pair's source.
func (c Contents) further() []corev1.VolumeProjection {
	var out []corev1.VolumeProjection
	for _, p := range c.Files.paths() {
		if p.withPair(c.Pair) {
			continue
		}
		item := []corev1.KeyToPath{{Key: p.key, Path: p.path}}
		switch {
		case p.annotation != "":
			out = append(out, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: p.path, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: p.annotation},
			}}}})
		case p.key == api.BundleKey:
			out = append(out, bundle(p.path, c.TrustBundle, false))
		default:
			out = append(out, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: c.Pair.Secret}, Items: item,
			}})
		}
	}
	return out
}

// withPair reports whether the file is in the source of the pair: only one source can
// have a key that the kubelet makes.
func (p projected) withPair(pair Pair) bool {
	return pair.PodKey != nil && slices.Contains(formats.CredentialBundles().Files(), p.key)
}

// in reports whether a source of a volume has the file.
func (p projected) in(pair Pair, s corev1.VolumeProjection) bool {
	item := func(i corev1.KeyToPath) bool { return i.Key == p.key && i.Path == p.path }
	switch {
	case p.withPair(pair):
		return s.PodCertificate != nil && s.PodCertificate.CredentialBundlePath == p.path
	case p.annotation != "":
		return s.DownwardAPI != nil && slices.ContainsFunc(s.DownwardAPI.Items, func(f corev1.DownwardAPIVolumeFile) bool {
			return f.Path == p.path && f.FieldRef != nil && f.FieldRef.FieldPath == p.annotation
		})
	case p.key == api.BundleKey:
		return hasBundle(s, p.path)
	}
	return s.Secret != nil && s.Secret.Name == pair.Secret && !isTrue(s.Secret.Optional) && slices.ContainsFunc(s.Secret.Items, item)
}
