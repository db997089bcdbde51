package api

// SignerName is the signer in the sense of certificates.k8s.io: that of the
// ClusterTrustBundle, and what PodCertificateRequests and CertificateSigningRequests name
// in spec.signerName.
const SignerName = Domain + "/serving"

// TrustBundleName is the ClusterTrustBundle with the CA bundle, if the API server has
// that kind. The API requires that its name begins with that of its signer, and that its
// writer has the right to attest for that signer.
const TrustBundleName = Domain + ":serving:ca"
