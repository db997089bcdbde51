package api

// Reasons of condition ConditionServing, which the rotator writes: whether the
// pods serve the certificate that is in the Secret, at each of [Needs]. One that does not hold of
// all ready pods is named if it holds of any, in this order.
const (
	ServingNoConsumers = "NoConsumers" // False: no ready pod mounts the Secret
	ServingPropagating = "Propagating" // False: a new certificate is on its way
	ServingStale       = "Stale"       // False: an older certificate, longer than a pod takes to get a new one
	ServingNoPort      = "NoPort"      // False: no ready pod has a TLS port of the Service; Unknown: the Service has no TCP port
	ServingForeign     = "Foreign"     // False: another certificate than any that was in the Secret
	ServingPlaintext   = "Plaintext"   // False: no TLS
	ServingUnreachable = "Unreachable" // Unknown: no answer
	ServingCurrent     = "Current"     // True
	ServingNotVerified = "NotVerified" // Unknown: nobody looks, or the pods' addresses are not dialled
)
