package api

// Reasons of condition ConditionServing, which the rotator writes: whether the pods serve the
// certificate in the Secret, on each of [Needs]. If the ready pods differ, the first of these
// reasons that applies to any of them is used.
const (
	ServingNoConsumers = "NoConsumers" // False: no ready pod mounts the Secret
	ServingPropagating = "Propagating" // False: a new certificate is being propagated
	ServingStale       = "Stale"       // False: an older certificate, for longer than the propagation time
	ServingNoPort      = "NoPort"      // False: no ready pod has a TLS port of the Service; Unknown: the Service has no TCP port
	ServingForeign     = "Foreign"     // False: a certificate that was never in the Secret
	ServingPlaintext   = "Plaintext"   // False: no TLS
	ServingUnreachable = "Unreachable" // Unknown: no answer
	ServingCurrent     = "Current"     // True
	ServingNotVerified = "NotVerified" // Unknown: pods are not dialled, an answer is not understood, or condition Ready is False and names no certificate
	ServingNotMounted  = "NotMounted"  // False: all pods that mount the key serve the certificate, but others cannot
)
