package signer

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// SecretPatch returns a merge patch that writes our label, the owners, the
// annotations and, if given, a new pair, takes keys away that should not be there,
// and leaves all else as users made it. It fails on any other Secret than the one
// decided about.
func SecretPatch(secret *SecretFacts, owners []metav1.OwnerReference, instance string, annotations map[string]any, issued *Issued) map[string]any {
	data := map[string]any{}
	for _, key := range secret.Extra {
		data[key] = nil
	}
	if issued != nil {
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = issued.CertPEM, issued.KeyPEM
	}
	metadata := map[string]any{
		"uid":             secret.UID,
		"resourceVersion": secret.ResourceVersion,
		"labels":          map[string]any{api.LabelManagedBy: instance},
		"ownerReferences": owners,
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if len(data) > 0 {
		patch["data"] = data
	}
	return patch
}
