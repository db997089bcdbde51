// Package volume builds the volume of a pod that gets a certificate: the pair, the CA bundle and the
// files that programs need, and their sources; and checks whether it can be mounted in a container.
// It is pure.
//
//	contents := volume.Contents{Pair: volume.Pair{Secret: "web-tls"}, Issued: true}
//	if names := contents.Find(pod); len(names) == 0 {
//		v := contents.Volume(pod, "servingcert", volume.ModeAll)
//	}
package volume

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Modes of the files: readable by all, because often only the image knows the user of a
// container, or by root and the pod's group if that is enough.
const (
	ModeAll   int32 = 0o444
	ModeGroup int32 = 0o440
)

// Contents are the contents of a volume.
type Contents struct {
	Pair Pair // zero for none: then it holds only the CA bundle
	// Issued is true if the CA bundle verifies the pair. Otherwise ca.crt comes from the Secret
	// of the pair, unless Trust is true.
	Issued bool
	// Trust is true if the pod requests the CA bundle, and must not start without it.
	Trust bool
	// TrustBundle is true if the CA bundle comes from the ClusterTrustBundle instead of the
	// ConfigMap of the namespace.
	TrustBundle bool
	// Public is true if it holds the files with the public roots, without which the pod must not
	// start.
	Public bool
	Files  Files
}

// Find returns the names of the volumes of the pod that already have the files from the
// right source: the injected one, if this is not the first pass, and those that the user
// wrote. The mode and the source of ca.crt may differ, because a second volume could not be
// mounted at the same path. A volume without a name, which the API server rejects, is not
// used.
func (c Contents) Find(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		has := v.Projected != nil && c.in(v.Projected.Sources)
		if c.Pair.Host != "" {
			has = v.HostPath != nil && clean(v.HostPath.Path) == c.Pair.Host
		}
		if has && v.Name != "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// in reports whether the sources have all of the contents.
func (c Contents) in(sources []corev1.VolumeProjection) bool {
	if c.Pair != (Pair{}) && !c.Pair.In(sources) {
		return false
	}
	if c.Trust && !slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool { return hasBundle(s, api.BundleKey) }) {
		return false
	}
	if c.Public && !slices.ContainsFunc(sources, hasPublic) {
		return false
	}
	for _, want := range c.Files.paths() {
		if !slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool { return want.in(c.Pair, s) }) {
			return false
		}
	}
	return true
}

// Volume returns a new volume with the contents and a free name; see [FreeName]. mode is the mode
// of its files, unless they are on the node.
func (c Contents) Volume(pod *corev1.Pod, base string, mode int32) corev1.Volume {
	if c.Pair.Host == "" {
		return New(pod, base, c.Sources(), mode)
	}
	exists := corev1.HostPathDirectory // the kubelet waits for it
	return corev1.Volume{Name: FreeName(pod, base), VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: c.Pair.Host, Type: &exists},
	}}
}

// Sources returns the sources of a new volume. Only what the pod needs is required: a
// required source that is missing stops the updates of the whole volume.
func (c Contents) Sources() []corev1.VolumeProjection {
	bundle := bundle(api.BundleKey, c.TrustBundle, c.Trust)
	if c.Pair == (Pair{}) {
		out := []corev1.VolumeProjection{bundle}
		if c.Public {
			out = append(out, public())
		}
		return append(out, c.further()...)
	}
	out := []corev1.VolumeProjection{c.Pair.Source(c.Files.Formats)}
	if c.Issued || c.Trust {
		out = append(out, bundle)
	} else {
		out = append(out, secret(c.Pair.Secret, optional(true), api.BundleKey))
	}
	return append(out, c.further()...)
}

// New returns a volume with the sources and a free name; see [FreeName].
func New(pod *corev1.Pod, base string, sources []corev1.VolumeProjection, mode int32) corev1.Volume {
	return corev1.Volume{
		Name:         FreeName(pod, base),
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: &mode}},
	}
}

// FreeName returns a name that no volume and no mount of the pod uses: base, or base with a
// number. It is the same for equal pods.
func FreeName(pod *corev1.Pod, base string) string {
	taken := map[string]bool{}
	take := func(name string) {
		if strings.HasPrefix(name, base) {
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
	name := base
	for n := 2; taken[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}
