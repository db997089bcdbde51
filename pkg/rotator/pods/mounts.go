package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// mounts returns the Secrets whose private key is in a volume, whoever wrote the
// volume.
func mounts(volumes []corev1.Volume) []string {
	var names []string
	for i := range volumes {
		names = append(names, keysIn(&volumes[i])...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keysIn returns the Secrets whose private key is in the volume. A client that
// mounts nothing but ca.crt of a Secret does not serve it.
func keysIn(v *corev1.Volume) []string {
	var names []string
	add := func(name string, items []corev1.KeyToPath) {
		hasKey := func(i corev1.KeyToPath) bool { return i.Key == corev1.TLSPrivateKeyKey }
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
