package trust

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager owns the fields that this package writes, and no others.
const FieldManager = "servingcert-trust"

// Target is one kind of place that the bundle is kept in.
type Target struct {
	// Kind names it in the trust status, logs and metrics.
	Kind string
	// Object is an empty object of the type that is written.
	Object client.Object
	// finder says which objects are asked for the bundle, and where they are
	// read and watched.
	finder finder
	// Older is the same in an older version of its API, tried where the API server
	// does not have this one; nil for none.
	Older *Target
	// Strip removes from an object what neither the finder nor the functions below
	// read, before it enters the cache. Identity and the annotations that ask for
	// the bundle are kept anyway.
	Strip func(client.Object)
	// Release gives up the ownership of the field after each write; see release.
	// It is for fields inside a structure that is not valid with them alone.
	Release bool
	// Judge says what the object, which is asked to hold the bundle, holds. Pure.
	Judge func(obj client.Object, bundle []byte) Judgement
	// Clear is the JSON merge patch that removes what is in the bundle's way, with
	// the resourceVersion that it is for; nil if nothing is. Pure; nil where
	// nothing can be in its way.
	Clear func(obj client.Object) []byte
	// Moved reports whether our field manager owns a field that the bundle is not
	// asked for in any more. Pure; nil where there is only one field.
	Moved func(obj client.Object) bool
	// Document is the server-side-apply document that puts the bundle into the
	// object's field and says nothing about any other. If obj has no
	// resourceVersion it does not exist yet. Pure.
	Document func(obj client.Object, bundle []byte) runtime.ApplyConfiguration
}

// Targets lists every kind of place, in the order of the documentation. With
// openShift, OpenShift's annotations ask for the bundle as ours do.
func Targets(openShift bool) []Target {
	w := words{openShift}
	return []Target{
		namespaceConfigMap(),
		annotatedConfigMap(w),
		mutatingWebhookConfiguration(w),
		validatingWebhookConfiguration(w),
		apiService(w),
		customResourceDefinition(w),
		clusterTrustBundle(),
	}
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	var names []string
	for _, t := range Targets(false) {
		names = append(names, t.Kind)
	}
	return names
}

// State is how a target stands to the bundle. Its values are those of the
// metrics' label state.
type State string

const (
	// StateHolds: the target holds the current bundle.
	StateHolds State = "holds"
	// StatePending: it does not, and is being or will be written.
	StatePending State = "pending"
	// StateRefuses: it does not, and cannot be written; Reason says why.
	StateRefuses State = "refuses"
	// StateUnsuitable: it asks for the bundle and has no field for it. It does
	// not count as a target.
	StateUnsuitable State = "unsuitable"
)

// States lists all, in the order of the documentation.
func States() []State { return []State{StateHolds, StatePending, StateRefuses, StateUnsuitable} }

// Judgement is a State and, unless that is StateHolds, why.
type Judgement struct {
	State   State
	Reason  Reason
	Message string // for people: what is wrong and what is allowed
}

// Reason is why a target does not hold the bundle. Its values are those of the
// metrics' label reason and of events.
type Reason string

const (
	ReasonMissing         Reason = "Missing"         // the object does not exist
	ReasonDiffers         Reason = "Differs"         // the field is absent or holds something else
	ReasonImmutable       Reason = "Immutable"       // the object says that it may not change
	ReasonNoField         Reason = "NoField"         // the object has no field that the bundle goes into
	ReasonAnnotation      Reason = "Annotation"      // what asks for the bundle cannot be followed
	ReasonNoSource        Reason = "NoSource"        // there is no bundle to be distributed
	ReasonForbidden       Reason = "Forbidden"       // RBAC or admission
	ReasonInvalid         Reason = "Invalid"         // the object would not be valid with the bundle in it, or admission says so
	ReasonConflict        Reason = "Conflict"        // the object changed meanwhile
	ReasonUnavailable     Reason = "Unavailable"     // no answer, or the API server's fault
	ReasonTooManyRequests Reason = "TooManyRequests" // the API server asks to slow down
	ReasonContested       Reason = "Contested"       // someone changes it back each time
	ReasonOther           Reason = "Other"
)

func holds() Judgement { return Judgement{State: StateHolds} }

func differs(message string) Judgement {
	return Judgement{State: StatePending, Reason: ReasonDiffers, Message: message}
}
