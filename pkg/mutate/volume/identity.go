package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Identity returns the source of a file with the pod's identity: a key that the kubelet makes, then the
// certificate that shows the pod's ServiceAccount, and its chain. The pod starts once it was signed.
func Identity(path string) corev1.VolumeProjection {
	return corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
		SignerName: api.ClientSignerName, KeyType: string(pki.ECDSAP256), CredentialBundlePath: path,
	}}
}

// ClientRoots returns the source of a file with the roots that verify identities. It is required: a pod
// that cannot verify its clients does not start.
func ClientRoots(path string) corev1.VolumeProjection {
	signer := api.ClientSignerName
	return corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
		SignerName: &signer, LabelSelector: &metav1.LabelSelector{}, // empty selects all, nil none
		Path: path,
	}}
}

// IdentityFolder returns the sources of the directory with a pod's identity for its programs: the key and
// the chain in one file and in two, and the roots that verify identities.
func IdentityFolder(trustDomain string) []corev1.VolumeProjection {
	identity := Identity(api.IdentityBundle)
	identity.PodCertificate.CertificateChainPath, identity.PodCertificate.KeyPath = corev1.TLSCertKey, corev1.TLSPrivateKeyKey
	return []corev1.VolumeProjection{identity, ClientRoots(api.IdentityRoots(trustDomain))}
}

// FindIdentity returns the name of a volume of the pod that already has what IdentityFolder returns.
func FindIdentity(pod *corev1.Pod, trustDomain string) (name string, found bool) {
	has := func(s corev1.VolumeProjection) bool {
		c := s.PodCertificate
		return c != nil && c.SignerName == api.ClientSignerName && c.CredentialBundlePath == api.IdentityBundle &&
			c.CertificateChainPath == corev1.TLSCertKey && c.KeyPath == corev1.TLSPrivateKeyKey
	}
	hasRoots := func(s corev1.VolumeProjection) bool {
		b := s.ClusterTrustBundle
		return b != nil && b.SignerName != nil && *b.SignerName == api.ClientSignerName && b.Path == api.IdentityRoots(trustDomain)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil && v.Name != "" && slices.ContainsFunc(v.Projected.Sources, has) && slices.ContainsFunc(v.Projected.Sources, hasRoots) {
			return v.Name, true
		}
	}
	return "", false
}
