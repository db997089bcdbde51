package api

// The ClusterTrustBundle with the CA bundle, if the API server has that kind. The API
// requires that its name begins with that of its signer, and that its writer has the
// right to attest for that signer.
const (
	TrustBundleSigner = Domain + "/serving"
	TrustBundleName   = Domain + ":serving:ca"
)
