package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// bundle returns the source of a volume with the CA bundle in a file: the ConfigMap of the
// namespace, or the cluster's ClusterTrustBundle if trustBundle. If it is not required, the
// pod also starts without it.
//
// The ClusterTrustBundle is projected by its signer: kubelets cache one that has a signer and
// is projected by name for up to 5 minutes (kubernetes#141439).
func bundle(path string, trustBundle, required bool) corev1.VolumeProjection {
	if trustBundle {
		signer := api.SignerName
		return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
			SignerName: &signer, LabelSelector: &metav1.LabelSelector{}, // empty selects all, nil none
			Path: path, Optional: optional(!required),
		}}
	}
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName},
		Items:                []corev1.KeyToPath{{Key: api.BundleKey, Path: path}},
		Optional:             optional(!required),
	}}
}

// hasBundle reports whether a source of a volume has the CA bundle in the file, from either
// object: the webhook's flag may have changed since the first pass.
func hasBundle(s corev1.VolumeProjection, path string) bool {
	if b := s.ClusterTrustBundle; b != nil {
		byName := b.Name != nil && *b.Name == api.TrustBundleName
		bySigner := b.SignerName != nil && *b.SignerName == api.SignerName &&
			b.LabelSelector != nil && len(b.LabelSelector.MatchLabels)+len(b.LabelSelector.MatchExpressions) == 0
		return (byName || bySigner) && b.Path == path
	}
	if s.ConfigMap == nil || s.ConfigMap.Name != api.BundleName {
		return false
	}
	if path == api.BundleKey {
		return projects(s.ConfigMap.Items, path)
	}
	return slices.Contains(s.ConfigMap.Items, corev1.KeyToPath{Key: api.BundleKey, Path: path})
}

// public returns the source of the files that include the public roots, which only the ConfigMap
// of the namespace has. It is required: a program whose trust file is missing trusts nothing.
func public() corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName},
		Items:                items(formats.PublicBundleFile, formats.PublicTruststoreFile),
	}}
}

// hasPublic reports whether a source of a volume has at least what public returns.
func hasPublic(s corev1.VolumeProjection) bool {
	return s.ConfigMap != nil && s.ConfigMap.Name == api.BundleName && !isTrue(s.ConfigMap.Optional) &&
		projects(s.ConfigMap.Items, formats.PublicBundleFile) && projects(s.ConfigMap.Items, formats.PublicTruststoreFile)
}
