package preview

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/mutate"
)

// Outcome is the webhook's result for one workload, or why it is unknown.
type Outcome struct {
	Kind, Name, Namespace string
	Document              string // the file, and the number of the document in it
	// Path is the path of the pod template in the object; empty for kinds of Kubernetes' own
	// API, which have only one template.
	Path string
	// At is the path of the object in the document, as in Object; Template is the path of the
	// pod template in the object.
	At, Template []any
	// Pod is the pod, from the template if there is one; nil if it cannot be read.
	Pod *corev1.Pod
	// Problem is why the webhook's result is unknown, or nil. It names the field.
	Problem error
	// NotLookedInto is true if the object has containers at Path that are not in a pod
	// template, so the resulting pods are unknown.
	NotLookedInto bool
	// Refused is why the pod would be denied, or nil.
	Refused error
	// OptedOut is why the webhook would not review the pod; empty if it would.
	OptedOut string
	Report   mutate.Report
	Changed  bool
}

// Failed reports whether the pod would be denied, or the webhook's result is unknown.
func (o Outcome) Failed() bool { return o.Refused != nil || o.Problem != nil }

// Workload returns KIND/NAME, with Path if it is not empty.
func (o Outcome) Workload() string {
	name := o.Kind + "/" + o.Name
	if o.Path != "" {
		name += " (" + o.Path + ")"
	}
	return name
}
