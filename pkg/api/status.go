package api

// Keys of ConfigMap CAStatusName beside BundleKey, which the signer writes. A key
// that has nothing to say is absent.
const (
	CAGeneration = "generation"  // the number of the generation that signs
	CANewest     = "newest-seen" // a higher number of a generation that there was than the CA Secret knows
	CAPhase      = "phase"       // how far a succession is
	CASince      = "since"       // when the phase began, RFC 3339
	CANotAfter   = "not-after"   // when the generation that signs expires, RFC 3339
	CABundleHash = "bundle-hash" // SHA-256 of BundleKey in hex, as TrustBundleHash names it
	CAProblem    = "problem"     // why nothing is signed: REASON: message
	CAWarning    = "warning"     // what does not stop signing: REASON: message, one in a line

	CANextGeneration = "next-generation" // in phase Wait: the number of the one that is to sign
	CAWaitingFor     = "waiting-for"     // what the phase waits for, for people
	CAWhy            = "why"             // what the succession is for, for people
	// CAReplaced and CALeaves, in phases Reissue and Retire: how many of the
	// certificates in use the generation that signs has signed, and how many there
	// are. Brought up to date every few seconds.
	CAReplaced = "certificates-replaced"
	CALeaves   = "certificates"
	// CARotation is the request that AnnotationRotate made last and that was
	// answered, as MODE:REASON, and CARotationOutcome what became of it.
	CARotation        = "rotation"
	CARotationOutcome = "rotation-outcome"
)

// Phases of the CA, the values of CAPhase.
const (
	PhaseStable  = "Stable"  // one generation, or older ones that nothing needs
	PhaseWait    = "Wait"    // a new generation is published and not yet trusted everywhere
	PhaseReissue = "Reissue" // it signs, and older certificates are being replaced
	PhaseRetire  = "Retire"  // older generations stay trusted until their last certificate ends
)

// RotateMode is how a succession that is asked for goes: the value of
// AnnotationRotateMode beside AnnotationRotate.
type RotateMode string

// The modes.
const (
	// RotateOverlap is the default: the new generation is trusted before it signs.
	RotateOverlap RotateMode = "overlap"
	// RotateForce is RotateOverlap even if clients that hold only the oldest root
	// that has not expired will not be able to verify what is served.
	RotateForce RotateMode = "force"
	// RotateDistrust leaves all earlier generations at once: for a stolen key.
	RotateDistrust RotateMode = "distrust-now"
	// RotateReplaceLost makes a new CA in place of one that is lost or corrupt.
	RotateReplaceLost RotateMode = "replace-lost"
)

// RotateModes lists all.
func RotateModes() []RotateMode {
	return []RotateMode{RotateOverlap, RotateForce, RotateDistrust, RotateReplaceLost}
}
