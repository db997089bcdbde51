package mutate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// NeedsLookup reports whether the decision about the pod depends on what its
// namespace holds. request is what api.ParsePod returns for the pod.
func NeedsLookup(pod *corev1.Pod, request api.PodRequest) bool {
	switch api.Exempt(pod, request) {
	case api.ExemptMirrorPod, api.ExemptOptedOut:
		return false
	}
	return true // a Windows pod gets a warning if it would get a Secret
}

// skipReason returns why nothing is injected into the pod as a whole, or "".
func skipReason(in *input) Reason {
	if NeedsLookup(in.pod, in.request) && in.choice.By == ByNothing && !in.request.Trust {
		if in.choice.NotServing {
			return ReasonNotServing
		}
		return ReasonNotConcerned
	}
	return Reason(api.Exempt(in.pod, in.request))
}

// containerCheck keeps something out of a container. applies returns false, or true and
// what exactly was found.
type containerCheck struct {
	reason  Reason
	applies func(in *input, c *corev1.Container) (detail string, applies bool)
}

// fileChecks keep the files, and with them everything, out of a container.
var fileChecks = []containerCheck{
	{reasonMountPathTaken, func(in *input, c *corev1.Container) (string, bool) {
		for _, d := range c.VolumeDevices {
			if path.Clean(d.DevicePath) == in.settings.MountPath {
				return d.Name + " at " + d.DevicePath, true
			}
		}
		return findMount(c, func(m corev1.VolumeMount) bool {
			return path.Clean(m.MountPath) == in.settings.MountPath && !isMount(m, in.volume, in.settings.MountPath)
		})
	}},
	{reasonMountPathReadOnly, func(in *input, c *corev1.Container) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool {
			return below(in.settings.MountPath, path.Clean(m.MountPath)) && readOnly(in.pod, m)
		})
	}},
	{reasonMountPathCovers, func(in *input, c *corev1.Container) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool { return below(path.Clean(m.MountPath), in.settings.MountPath) })
	}},
}

func findMount(c *corev1.Container, match func(corev1.VolumeMount) bool) (string, bool) {
	i := slices.IndexFunc(c.VolumeMounts, match)
	if i < 0 {
		return "", false
	}
	return c.VolumeMounts[i].Name + " at " + c.VolumeMounts[i].MountPath, true
}

// envChecks only lead to notes about the environment. Both may apply to a container.
var envChecks = []containerCheck{
	{reasonEnvAlreadySet, func(in *input, c *corev1.Container) (string, bool) {
		var own []string
		for _, v := range in.environment() {
			if i := indexEnv(c, v.Name); i >= 0 && (c.Env[i].Value != v.Value || c.Env[i].ValueFrom != nil) {
				own = append(own, v.Name)
			}
		}
		return strings.Join(own, ", "), len(own) > 0
	}},
	{reasonEnvFrom, func(_ *input, c *corev1.Container) (string, bool) { return "", len(c.EnvFrom) > 0 }},
}

// firstOf returns the note of the first check that applies to the container.
func firstOf(checks []containerCheck, in *input, c api.ContainerRef) (Note, bool) {
	for _, check := range checks {
		if detail, ok := check.applies(in, c.Container); ok {
			return Note{Reason: check.reason, Containers: []string{c.Name}, Detail: detail}, true
		}
	}
	return Note{}, false
}
