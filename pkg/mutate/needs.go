package mutate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// needs are the files that programs need beside the certificate's own.
type needs struct {
	files    map[string]string // by name in the directory: a key of the Secret, or ca.crt
	config   map[string]string // contents, by name in the directory
	combined bool              // the file with key and chain
}

// needsOf returns what the programs need.
func (in *input) needsOf(list []*programs.Program) needs {
	n := needs{combined: in.request.Combined && in.choice.combined}
	if len(list) > 0 {
		n.files, n.config = map[string]string{}, map[string]string{}
	}
	for _, p := range list {
		maps.Copy(n.files, p.Files)
		for name, content := range p.Config {
			n.config[name] = in.replace(content)
		}
		n.combined = n.combined || p.Uses(programs.Combined)
	}
	return n
}

// hasRoom reports whether the pod's annotations have room for the configuration files of all
// programs that may get the certificate. The API server refuses a pod with more.
func (in *input) hasRoom() bool {
	var list []*programs.Program
	for _, c := range in.targets {
		if p := in.programOf(c.Container); p != nil {
			list = append(list, p)
		}
	}
	annotations := maps.Clone(in.pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	for name, content := range in.needsOf(list).config {
		annotations[api.AnnotationFilePrefix+name] = content
	}
	return sizeOf(annotations) <= maxAnnotations
}

// sizeOf returns how many bytes annotations have, as the API server counts them.
func sizeOf(annotations map[string]string) int {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

// projected is one file of a volume: a key of the Secret, the CA bundle, or, with an
// annotation, what the annotation holds.
type projected struct{ path, key, annotation string }

// paths returns the files in the order in which a volume has them.
func (n needs) paths() []projected {
	if !n.combined && len(n.files)+len(n.config) == 0 {
		return nil // most programs need nothing more
	}
	var out []projected
	if n.combined {
		out = append(out, projected{path: api.CombinedKey, key: api.CombinedKey})
	}
	for _, name := range slices.Sorted(maps.Keys(n.files)) {
		out = append(out, projected{path: name, key: n.files[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(n.config)) {
		out = append(out, projected{path: name, annotation: "metadata.annotations['" + api.AnnotationFilePrefix + name + "']"})
	}
	return out
}

// sources returns the sources of a volume for all of them, beside that of the pair.
func (n needs) sources(choice Choice) []corev1.VolumeProjection {
	var out []corev1.VolumeProjection
	for _, p := range n.paths() {
		if p.withPair(choice) {
			continue
		}
		item := []corev1.KeyToPath{{Key: p.key, Path: p.path}}
		switch {
		case p.annotation != "":
			out = append(out, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: p.path, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: p.annotation},
			}}}})
		case p.key == api.BundleKey:
			out = append(out, choice.bundle(p.path, false))
		default:
			out = append(out, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: choice.Secret}, Items: item,
			}})
		}
	}
	return out
}

// withPair reports whether the file is in the source of the pair: only one source can
// have a key that the kubelet makes.
func (p projected) withPair(choice Choice) bool {
	return choice.PodKey != nil && p.key == api.CombinedKey
}

// in reports whether a source of a volume has the file.
func (p projected) in(choice Choice, s corev1.VolumeProjection) bool {
	item := func(i corev1.KeyToPath) bool { return i.Key == p.key && i.Path == p.path }
	switch {
	case p.withPair(choice):
		return s.PodCertificate != nil && s.PodCertificate.CredentialBundlePath == p.path
	case p.annotation != "":
		return s.DownwardAPI != nil && slices.ContainsFunc(s.DownwardAPI.Items, func(f corev1.DownwardAPIVolumeFile) bool {
			return f.Path == p.path && f.FieldRef != nil && f.FieldRef.FieldPath == p.annotation
		})
	case p.key == api.BundleKey:
		return hasBundle(s, p.path)
	}
	return s.Secret != nil && s.Secret.Name == choice.Secret && !isTrue(s.Secret.Optional) && slices.ContainsFunc(s.Secret.Items, item)
}
