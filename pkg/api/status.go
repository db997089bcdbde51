package api

// Keys of ConfigMap TrustStatusName, which the rotator writes: what the signer
// knows of who trusts a new generation of the CA.
const (
	// TrustBundleHash is the SHA-256, in hex, of the bundle that the targets are
	// to hold; "" if there is none. The counts are of this bundle.
	TrustBundleHash = "bundle-hash"
	// TrustTargets is how many targets there are.
	TrustTargets = "targets"
	// TrustHolding is how many of them hold the bundle.
	TrustHolding = "holding"
	// TrustPending is how many do not yet, and TrustRefusing how many cannot be
	// written. The three add up to TrustTargets.
	TrustPending  = "pending"
	TrustRefusing = "refusing"
	// TrustNotHolding names those that do not hold it, one in a line, bounded:
	// "KIND NAMESPACE/NAME: REASON: MESSAGE". For people.
	TrustNotHolding = "not-holding"
	// TrustProblem says why there is no bundle; "" if there is one. For people.
	TrustProblem = "problem"
)
