package api

import (
	"fmt"
	"time"
)

// SignerName is the signer in the sense of certificates.k8s.io: that of the
// ClusterTrustBundle, and what PodCertificateRequests and CertificateSigningRequests name
// in spec.signerName.
const SignerName = Domain + "/serving"

// TrustBundleName is the ClusterTrustBundle with the CA bundle, if the API server has
// that kind. The API requires that its name begins with that of its signer, and that its
// writer has the right to attest for that signer.
const TrustBundleName = Domain + ":serving:ca"

// How long kubelets take at most until a pod has a changed volume.
const (
	// KubeletUpdates is that of all volumes: a sync period of one minute, with its jitter of a half.
	KubeletUpdates = 92 * time.Second
	// KubeletUpdatesByName is that of a ClusterTrustBundle which has a signer and is projected by its
	// name: the kubelet's cache for it lasts 5 minutes (kubernetes#141439).
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
