package preview

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate"
)

// Outcome is what the webhook would do to one workload, or why that is not known.
type Outcome struct {
	Kind, Name, Namespace string
	Document              string // the file, and the number of the document in it
	// Path is where the pod template is in the object. It is empty where objects of the
	// kind have their only template in Kubernetes' own API.
	Path string
	// At is where the object is in the document, as in Object, and Template where the pod
	// template is in the object.
	At, Template []any
	// Pod is the pod, or the one that the template describes; nil if it cannot be read.
	Pod *corev1.Pod
	// Problem is why it could not be found out what the webhook would do, or nil. It
	// names the field.
	Problem error
	// NotLookedInto is true if the object has containers at Path that are not in a pod
	// template. What pods are made of them is not known.
	NotLookedInto bool
	// Refused is why the pod would be denied, or nil.
	Refused error
	// OptedOut is why the webhook would not review the pod; empty if it would.
	OptedOut string
	Report   mutate.Report
	Changed  bool
}

// Failed reports whether the pod would be denied, or what would be done to it could not
// be found out.
func (o Outcome) Failed() bool { return o.Refused != nil || o.Problem != nil }

// Workload returns the object, and where in it the template is.
func (o Outcome) Workload() string {
	name := o.Kind + "/" + o.Name
	if o.Path != "" {
		name += " (" + o.Path + ")"
	}
	return name
}
