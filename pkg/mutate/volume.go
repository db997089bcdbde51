package mutate

import (
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// volumeName is the name of the volume. If the name is taken, a number is appended.
const volumeName = "servingcert"

// Modes of the files: readable by all, because often only the image knows the user of a
// container, or by root and the pod's group if that is enough.
const (
	modeAll   int32 = 0o444
	modeGroup int32 = 0o440
)

// findVolumes returns the names of the volumes of the pod that already have the files from
// the right source: the injected one, if this is not the first pass, and those that the
// user wrote. The mode and the source of ca.crt may differ, because a second volume could
// not be mounted at the same path. The API server refuses a volume without a name, so such
// a volume is not used.
func findVolumes(in *input, need needs) []string {
	var names []string
	for i := range in.pod.Spec.Volumes {
		v := &in.pod.Spec.Volumes[i]
		if v.Projected != nil && v.Name != "" && hasFiles(in, v.Projected.Sources) && need.metBy(in, v.Projected.Sources) {
			names = append(names, v.Name)
		}
	}
	return names
}

// hasFiles reports whether the sources have what every volume needs.
func hasFiles(in *input, sources []corev1.VolumeProjection) bool {
	hasPair := in.choice.By == ByNothing || in.choice.isIn(sources)
	hasTrust := !in.request.Trust || slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool { return hasBundle(s, api.BundleKey) })
	return hasPair && hasTrust
}

// metBy reports whether the sources have all that the programs need: each projection that a
// new volume would have for them.
func (n needs) metBy(in *input, sources []corev1.VolumeProjection) bool {
	for _, want := range n.paths() {
		if !slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool { return want.in(in.choice, s) }) {
			return false
		}
	}
	return true
}

// projects reports whether the items contain a key as a file of the same name. No items
// means all keys.
func projects(items []corev1.KeyToPath, key string) bool {
	return len(items) == 0 || slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return i.Key == key && i.Path == key })
}

// newVolume returns the volume with the files, with a name that is free.
func newVolume(in *input, need needs) corev1.Volume {
	mode := modeAll
	if in.choice.By != ByNothing && in.groupCanRead() {
		mode = modeGroup
	}
	return corev1.Volume{
		Name: freeVolumeName(in.pod),
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources:     append(sources(in, need), need.sources(in.choice)...),
			DefaultMode: &mode,
		}},
	}
}

// sources returns what the volume contains. Only what the pod needs is required: a
// required source that is missing stops the updates of the whole volume.
func sources(in *input, need needs) []corev1.VolumeProjection {
	bundle := in.choice.bundle(api.BundleKey, in.request.Trust)
	if in.choice.By == ByNothing {
		return []corev1.VolumeProjection{bundle}
	}
	out := []corev1.VolumeProjection{in.choice.source(need.combined)}
	if in.choice.Issued || in.request.Trust {
		return append(out, bundle)
	}
	return append(out, secret(in.choice.Secret, optional(true), api.BundleKey))
}

func secret(name string, optional *bool, keys ...string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Items:                items(keys...),
		Optional:             optional,
	}}
}

func items(keys ...string) []corev1.KeyToPath {
	out := make([]corev1.KeyToPath, len(keys))
	for i, k := range keys {
		out[i] = corev1.KeyToPath{Key: k, Path: k}
	}
	return out
}

func optional(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

func isTrue(b *bool) bool { return b != nil && *b }

// groupCanRead reports whether the files need to be readable only by root and the pod's
// group. The kubelet gives the files to the fsGroup if there is one. A program that changes
// to another user cannot read what is root's.
func (in *input) groupCanRead() bool {
	podContext := in.pod.Spec.SecurityContext
	if podContext != nil && podContext.FSGroup != nil {
		return true
	}
	return !slices.ContainsFunc(in.targets, func(c api.ContainerRef) bool {
		user := (*int64)(nil)
		if podContext != nil {
			user = podContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			user = c.SecurityContext.RunAsUser
		}
		if user == nil || *user != 0 {
			return true
		}
		p := in.programOf(c.Container)
		return p != nil && p.DropsRoot
	})
}

// freeVolumeName returns a name that no volume and no mount of the pod uses. It is always
// the same for the same pod.
func freeVolumeName(pod *corev1.Pod) string {
	taken := map[string]bool{}
	take := func(name string) {
		if strings.HasPrefix(name, volumeName) {
			taken[name] = true
		}
	}
	for i := range pod.Spec.Volumes {
		take(pod.Spec.Volumes[i].Name)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				take(m.Name)
			}
		}
	}
	name := volumeName
	for n := 2; taken[name]; n++ {
		name = volumeName + "-" + strconv.Itoa(n)
	}
	return name
}

// mounted reports whether the container mounts the whole volume at dir.
func mounted(c *corev1.Container, volume, dir string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return isMount(m, volume, dir) })
}

func isMount(m corev1.VolumeMount, volume, dir string) bool {
	return m.Name == volume && path.Clean(m.MountPath) == dir && m.SubPath == "" && m.SubPathExpr == ""
}

// below reports whether child is inside the directory parent, at any depth.
func below(child, parent string) bool {
	rest, inside := strings.CutPrefix(child, strings.TrimSuffix(parent, "/"))
	return inside && child != parent && strings.HasPrefix(rest, "/")
}

// readOnly reports whether nothing can be created in the mount, not even a directory for
// another mount.
func readOnly(pod *corev1.Pod, m corev1.VolumeMount) bool {
	if m.ReadOnly {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == m.Name && (v.Secret != nil || v.ConfigMap != nil || v.Projected != nil || v.DownwardAPI != nil || v.Image != nil)
	})
}
