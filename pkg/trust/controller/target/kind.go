// Package target lists the kinds of target: objects that the CA bundle is kept in.
//
// Each kind is a file with one [Kind]: how its objects are found, which of their
// content is kept in a cache, what they hold, and which server-side-apply document
// sets the one field that holds the bundle. A new kind is such a file and a line in
// [Kinds].
package target

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
)

// Kind is a kind of target: objects of one type that the bundle is kept in.
type Kind struct {
	finder
	// Name names it in --targets, the trust status, logs and metrics.
	Name string
	// Object is an empty object of the type that is written.
	Object client.Object
	// addToScheme adds the type of Object; nil for one that needs none.
	addToScheme func(*runtime.Scheme) error
	// Older is the same in an older version of its API, tried where the API server
	// does not have this one; nil for none.
	Older *Kind
	// Release gives up the ownership of the field after each write. It is for
	// fields inside a structure that is not valid with them alone.
	Release bool
	// strip removes from an object what neither the finder nor the functions below
	// read, before it enters the cache. Identity and the annotations that request
	// the bundle are kept anyway.
	strip func(client.Object)
	// evaluate returns what the object, which is requested to hold the bundle, holds.
	evaluate func(obj client.Object, bundle trust.Bundle) trust.Evaluation
	// clear is for Clear; nil where nothing can be beside the bundle.
	clear func(obj client.Object, bundle trust.Bundle) []byte
	// moved is for Moved; nil where there is only one field.
	moved func(obj client.Object, bundle trust.Bundle) bool
	// calls returns the namespaces of the Services that are called with the bundle; nil
	// where none is.
	calls func(obj client.Object) []string
	// advice is for Advice; nil for none.
	advice func(obj client.Object) string
	// lacks is for Lacks; nil where a request is followed or not.
	lacks func(obj client.Object, bundle trust.Bundle) string
	// proof is for Recall; nil where evaluate makes no file.
	proof func(obj client.Object, bundle trust.Bundle) string
	// document is for Document.
	document func(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration
}

// AddToScheme adds the type of Object to the scheme.
func (k Kind) AddToScheme(scheme *runtime.Scheme) error {
	if k.addToScheme == nil {
		return nil
	}
	return k.addToScheme(scheme)
}

// Reads returns the types of object that are listed and watched for this kind.
func (k Kind) Reads() []Read { return k.reads(k.strip) }

// Evaluate returns what a target holds.
func (k Kind) Evaluate(t Target, bundle trust.Bundle) trust.Evaluation {
	switch {
	case t.Problem != "":
		return trust.Evaluation{State: trust.StateUnsuitable, Reason: trust.ReasonAnnotation, Message: t.Problem}
	case !t.Exists():
		return trust.Evaluation{State: trust.StatePending, Reason: trust.ReasonMissing, Message: "the object does not exist"}
	}
	return k.evaluate(t.Object, bundle)
}

// Recall is Evaluate for a decision about all targets: it makes no file with a password of its own.
// Of a target with such a file, it returns what last, the record of its own decision, has.
func (k Kind) Recall(t Target, bundle trust.Bundle, last trust.Record) trust.Evaluation {
	if proof := k.Proof(t, bundle); proof != "" {
		return last.Recall(bundle, proof)
	}
	return k.Evaluate(t, bundle)
}

// Proof is [trust.Proof] of a target; "" if Evaluate makes no file.
func (k Kind) Proof(t Target, bundle trust.Bundle) string {
	if k.proof == nil || t.Problem != "" || !t.Exists() {
		return ""
	}
	return k.proof(t.Object, bundle)
}

// CalledIn reports whether the target is how the API server calls a Service of the
// namespace.
func (k Kind) CalledIn(namespace string, t Target) bool {
	return k.calls != nil && t.Exists() && slices.Contains(k.calls(t.Object), namespace)
}

// Clear returns the JSON merge patch that removes what may not be beside the
// bundle, with the resourceVersion that it is for; nil if there is nothing.
func (k Kind) Clear(obj client.Object, bundle trust.Bundle) []byte {
	if k.clear == nil {
		return nil
	}
	return k.clear(obj, bundle)
}

// Moved reports whether our field manager owns a field that the bundle is not
// requested in any more.
func (k Kind) Moved(obj client.Object, bundle trust.Bundle) bool {
	return k.moved != nil && k.moved(obj, bundle)
}

// Lacks returns the part of the target's request that cannot be followed, for people; "" if all of
// it can.
func (k Kind) Lacks(t Target, bundle trust.Bundle) string {
	if k.lacks == nil || t.Problem != "" {
		return ""
	}
	return k.lacks(t.Object, bundle)
}

// Advice returns what an administrator does if the rotator may not patch the object,
// in a clause; "" where the API server's message is enough.
func (k Kind) Advice(obj client.Object) string {
	if k.advice == nil {
		return ""
	}
	return k.advice(obj)
}

// Document returns the server-side-apply document that puts the bundle into the
// object's field and holds no other field. An object without a resourceVersion
// does not exist yet.
func (k Kind) Document(obj client.Object, bundle trust.Bundle) runtime.ApplyConfiguration {
	return k.document(obj, bundle)
}
