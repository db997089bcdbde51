package trust

// State is whether a target holds the bundle. Its values are those of the metrics'
// label state.
type State string

const (
	// StateHolds: the target holds the current bundle.
	StateHolds State = "holds"
	// StatePending: it does not yet; it is being or will be written.
	StatePending State = "pending"
	// StateRefuses: it does not, and cannot be written; Reason says why.
	StateRefuses State = "refuses"
	// StateUnsuitable: it requests the bundle but has no field for it, or its request
	// is not valid. It does not count as a target.
	StateUnsuitable State = "unsuitable"
)

// States lists all, in the order of the documentation.
func States() []State { return []State{StateHolds, StatePending, StateRefuses, StateUnsuitable} }

// Evaluation is a State and, unless that is StateHolds, its reason.
type Evaluation struct {
	State   State
	Reason  Reason
	Message string // what is wrong and what is allowed, for people
}

// Reason is why a target does not hold the bundle. Its values are those of the
// metrics' label reason and of events.
type Reason string

const (
	ReasonMissing         Reason = "Missing"         // the object does not exist
	ReasonDiffers         Reason = "Differs"         // the field is missing or not the current bundle
	ReasonImmutable       Reason = "Immutable"       // the object may not be changed
	ReasonNoField         Reason = "NoField"         // the object has no field for the bundle
	ReasonAnnotation      Reason = "Annotation"      // the annotation that requests the bundle is not valid
	ReasonNoSource        Reason = "NoSource"        // there is no bundle to distribute
	ReasonForbidden       Reason = "Forbidden"       // RBAC or admission
	ReasonInvalid         Reason = "Invalid"         // the object would not be valid with the bundle, or admission rejects it
	ReasonConflict        Reason = "Conflict"        // the object changed meanwhile
	ReasonUnavailable     Reason = "Unavailable"     // no answer, or an internal error of the API server
	ReasonTooManyRequests Reason = "TooManyRequests" // the API server asks to slow down
	ReasonContested       Reason = "Contested"       // another writer changes the field back each time
	ReasonOther           Reason = "Other"
)

// Holds is the evaluation of a target that holds the bundle.
func Holds() Evaluation { return Evaluation{State: StateHolds} }

// Differs is the evaluation of a target that must be written.
func Differs(message string) Evaluation {
	return Evaluation{State: StatePending, Reason: ReasonDiffers, Message: message}
}

// NoField is the evaluation of an object that has no field for the bundle.
func NoField(message string) Evaluation {
	return Evaluation{State: StateUnsuitable, Reason: ReasonNoField, Message: message}
}
