package api

import (
	"fmt"
	"time"
)

// SignerName is the signer name in the sense of certificates.k8s.io: spec.signerName of the
// ClusterTrustBundle, of PodCertificateRequests and of CertificateSigningRequests.
const SignerName = Domain + "/serving"

// TrustBundleName is the ClusterTrustBundle with the CA bundle, if the API server has
// that kind. The API requires that its name begins with its signer's, and that its writer
// has the permission to attest for that signer.
const TrustBundleName = Domain + ":serving:ca"

// ClientSignerName is SignerName of the CA for clients.
const ClientSignerName = Domain + "/client"

// ClientBundleName is the ClusterTrustBundle with the roots that verify clients. The signer writes it.
const ClientBundleName = Domain + ":client:ca"

// The longest time that kubelets take to update a changed volume of a pod.
const (
	// KubeletUpdates is for most volumes: a sync period of one minute, with a jitter of a half.
	KubeletUpdates = 92 * time.Second
	// KubeletUpdatesByName is for a ClusterTrustBundle that has a signer and is projected by its
	// name: the kubelet caches it for 5 minutes (kubernetes#141439).
	KubeletUpdatesByName = 5*time.Minute + KubeletUpdates
)

// A TrustSource is the object from which pods get the CA bundle.
type TrustSource string

// The values of TrustSource.
const (
	// TrustFromConfigMap: ConfigMap BundleName of their namespace. The default.
	TrustFromConfigMap TrustSource = "configmap"
	// TrustFromClusterTrustBundle: ClusterTrustBundle TrustBundleName.
	TrustFromClusterTrustBundle TrustSource = "clustertrustbundle"
)

// CheckTrustSource returns what is wrong with a TrustSource, or "".
func CheckTrustSource(s TrustSource) string {
	if s == TrustFromConfigMap || s == TrustFromClusterTrustBundle {
		return ""
	}
	return fmt.Sprintf("must be %q or %q", TrustFromConfigMap, TrustFromClusterTrustBundle)
}
