package pods

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// mountsOf returns the private keys in the volumes as text, sorted: at most api.MaxMounts of them
// and at most maxMounts bytes. The API server accepts any text as the name of a volume's Secret, so
// invalid names are skipped.
func mountsOf(volumes []corev1.Volume) []string {
	var names []string
	for i := range volumes {
		names = append(names, keysIn(&volumes[i])...)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return len(name) > validation.DNS1123SubdomainMaxLength || strings.ContainsFunc(name, notInNames)
	})
	for i := range volumes {
		names = append(names, podKeysIn(&volumes[i])...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	left := budget(maxMounts)
	for i, name := range names {
		if i == api.MaxMounts || !left.take(len(name)+len(",")) {
			return names[:i]
		}
	}
	return names
}

// podKeysIn returns PodKey and OtherPodKey as text, as far as the kubelet makes such keys for the volume. An
// identity of this cluster's own CA for clients is neither.
func podKeysIn(v *corev1.Volume) (keys []string) {
	if v.Projected == nil {
		return nil
	}
	for _, s := range v.Projected.Sources {
		switch {
		case s.PodCertificate == nil, s.PodCertificate.SignerName == api.ClientSignerName:
		case s.PodCertificate.SignerName == api.SignerName:
			keys = append(keys, PodKey.String())
		default:
			keys = append(keys, OtherPodKey.String())
		}
	}
	return keys
}

// notInNames reports whether the character is invalid in the name of a Secret.
func notInNames(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.'
}

// keysIn returns the Secrets whose private key is in the volume, as a file or in one file with the
// chain. A client that mounts only ca.crt of a Secret does not serve it.
func keysIn(v *corev1.Volume) []string {
	var names []string
	add := func(name string, items []corev1.KeyToPath) {
		hasKey := func(i corev1.KeyToPath) bool {
			return i.Key == corev1.TLSPrivateKeyKey || formats.HoldsPrivateKey(i.Key)
		}
		if len(items) == 0 || slices.ContainsFunc(items, hasKey) {
			names = append(names, name)
		}
	}
	if v.Secret != nil {
		add(v.Secret.SecretName, v.Secret.Items)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(s.Secret.Name, s.Secret.Items)
			}
		}
	}
	return names
}

// bundleKeys are the keys of ConfigMap api.BundleName that contain the CA bundle.
var bundleKeys = []string{api.BundleKey, formats.TruststoreFile, formats.PublicBundleFile, formats.PublicTruststoreFile}

// holdsBundle reports whether the CA bundle is in the volume.
func holdsBundle(v corev1.Volume) bool {
	has := func(name string, items []corev1.KeyToPath) bool {
		isBundle := func(i corev1.KeyToPath) bool { return slices.Contains(bundleKeys, i.Key) }
		return name == api.BundleName && (len(items) == 0 || slices.ContainsFunc(items, isBundle))
	}
	if v.ConfigMap != nil {
		return has(v.ConfigMap.Name, v.ConfigMap.Items)
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.ConfigMap != nil && has(s.ConfigMap.Name, s.ConfigMap.Items)
	})
}

// holdsRoots reports whether the CA bundle is in the volume, as a ConfigMap or a
// ClusterTrustBundle.
func holdsRoots(v corev1.Volume) bool {
	return holdsBundle(v) || v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		b := s.ClusterTrustBundle
		return b != nil && (b.Name != nil && *b.Name == api.TrustBundleName || b.SignerName != nil && *b.SignerName == api.SignerName)
	})
}

// BundleStart returns the time at which the first of the running containers that mount the CA bundle
// was started, native sidecars included; zero if none runs. Init containers that run to completion
// are not counted. It takes time linear in the size of the pod.
func BundleStart(pod *corev1.Pod) time.Time {
	volumes, mounting := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if holdsRoots(v) {
			volumes[v.Name] = true
		}
	}
	for _, c := range api.RunningContainers(pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return volumes[m.Name] }) {
			mounting[c.Name] = true
		}
	}
	var first time.Time
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			r := statuses[i].State.Running
			if r != nil && mounting[statuses[i].Name] && !r.StartedAt.IsZero() && (first.IsZero() || r.StartedAt.Time.Before(first)) {
				first = r.StartedAt.Time
			}
		}
	}
	return first
}
