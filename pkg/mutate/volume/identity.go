package volume

import (
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
