package pods

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// MaxKept is the maximum of bytes of text that are stored of a pod, whatever is written into the
// pod or its status: the sum of the limits below, and of Kubernetes' limits for names.
// docs/limits.md describes the effect of each limit.
const MaxKept = 115 << 10

// Limits of the facts of one pod. What exceeds them is ignored. An ordinary pod is far below them.
const (
	maxLabels = 8 << 10  // bytes of its labels
	maxPorts  = 8 << 10  // bytes of its TCP ports, as written by portsOf
	maxMounts = 8 << 10  // bytes of the names of at most api.MaxMounts Secrets
	maxSketch = 16 << 10 // bytes of what decides about its connections

	// longestPort is above the length of an entry that portsOf writes.
	longestPort = 64

	// maxOutput is the number of bytes that are kept of the end of a termination message. maxParts
	// is the number of bytes that are read of a container's entry in the webhook's status.
	maxOutput = 200
	maxParts  = 200
	// maxNoted bounds the webhook's notes, in characters, so that they fit into an event.
	maxNoted = 600

	maxHostname = validation.DNS1123LabelMaxLength
	maxOwner    = validation.DNS1123SubdomainMaxLength // bytes of each part of an owner reference, quoted
)

// budget is the number of bytes that may still be kept.
type budget int

// take uses n bytes of the budget; false if fewer are left.
func (b *budget) take(n int) bool {
	if n > int(*b) {
		return false
	}
	*b -= budget(n)
	return true
}

// beginning returns the first bytes of the text.
func beginning(text string, most int) string { return text[:min(len(text), most)] }

// end returns the last bytes of the text.
func end(text string, most int) string { return text[max(0, len(text)-most):] }

// leafOf returns annotation api.AnnotationLeaf of a pod that mounts these Secrets, or "" if it is
// longer than any value that the rotator writes.
func leafOf(annotation string, mounted []string) string {
	if len(annotation) > api.LongestMounted(mounted) {
		return ""
	}
	return annotation
}
