package api

// The ClusterTrustBundle that holds the bundle, where the API server has that
// kind. Its name begins with that of its signer, as the API demands; who writes it
// needs the right to attest for that signer.
const (
	TrustBundleSigner = Domain + "/serving"
	TrustBundleName   = Domain + ":serving:ca"
)
