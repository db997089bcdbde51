package volume

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// obstacle prevents the injection of files into a container. find returns a detail, or false.
type obstacle struct {
	reason reasons.Reason
	find   func(pod *corev1.Pod, c *corev1.Container, volume, dir string) (detail string, found bool)
}

var obstacles = []obstacle{
	{reasons.MountPathTaken, func(_ *corev1.Pod, c *corev1.Container, volume, dir string) (string, bool) {
		for _, d := range c.VolumeDevices {
			if clean(d.DevicePath) == dir {
				return d.Name + " at " + d.DevicePath, true
			}
		}
		return findMount(c, func(m corev1.VolumeMount) bool { return clean(m.MountPath) == dir && !isMount(m, volume, dir) })
	}},
	{reasons.MountPathReadOnly, func(pod *corev1.Pod, c *corev1.Container, _, dir string) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool { return below(dir, clean(m.MountPath)) && readOnly(pod, m) })
	}},
	{reasons.MountPathCovers, func(_ *corev1.Pod, c *corev1.Container, _, dir string) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool { return below(clean(m.MountPath), dir) })
	}},
}

// Obstacle returns why the volume cannot be mounted at the directory of the container, and a
// detail, or "".
func Obstacle(pod *corev1.Pod, c *corev1.Container, volume, dir string) (reason reasons.Reason, detail string) {
	for _, o := range obstacles {
		if detail, found := o.find(pod, c, volume, dir); found {
			return o.reason, detail
		}
	}
	return "", ""
}

// Occupied returns what prevents the volume, which is mounted at own, from being mounted at a
// further directory of the container, or "": own itself, or a mount of the container's owner at
// dir, below it, or above it if nothing can be created there.
func Occupied(pod *corev1.Pod, c *corev1.Container, volume, own, dir string) string {
	if own == dir || below(own, dir) || below(dir, own) {
		return own
	}
	detail, _ := findMount(c, func(m corev1.VolumeMount) bool {
		at := clean(m.MountPath)
		return at == dir && !isMount(m, volume, dir) || below(at, dir) || below(dir, at) && readOnly(pod, m)
	})
	return detail
}

func findMount(c *corev1.Container, match func(corev1.VolumeMount) bool) (string, bool) {
	i := slices.IndexFunc(c.VolumeMounts, match)
	if i < 0 {
		return "", false
	}
	return c.VolumeMounts[i].Name + " at " + c.VolumeMounts[i].MountPath, true
}

// Mounted reports whether the container mounts the whole volume at dir.
func Mounted(c *corev1.Container, volume, dir string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return isMount(m, volume, dir) })
}

func isMount(m corev1.VolumeMount, volume, dir string) bool {
	return m.Name == volume && clean(m.MountPath) == dir && m.SubPath == "" && m.SubPathExpr == ""
}

// maxPath is the length of the longest path on Linux, with the byte that ends it (PATH_MAX).
const maxPath = 4096

// clean returns the path of a mount without what is redundant in it. A path that is too long for Linux
// stays as it is.
func clean(mountPath string) string {
	if len(mountPath) > maxPath {
		return mountPath
	}
	return path.Clean(mountPath)
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
