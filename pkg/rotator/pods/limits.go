package pods

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// MaxKept is the most bytes of text that are kept of a pod, whatever whoever writes it or
// its status puts there: what the limits below allow together, and what Kubernetes allows
// for names. docs/limits.md says what happens beyond each.
const MaxKept = 64 << 10

// Limits of what is kept of one pod. What is beyond them is not read any further, or what
// comes first counts. All that an ordinary pod has is far below them.
const (
	maxLabels = 8 << 10 // bytes of its labels
	maxPorts  = 8 << 10 // bytes of its TCP ports, as portsOf writes them
	maxMounts = 8 << 10 // bytes of the names of Secrets; there are at most api.MaxMounts

	// maxSaid is how many bytes of the end of a termination message are kept, and maxParts how
	// many are read of what the webhook says that it gave one container.
	maxSaid  = 200
	maxParts = 200
	// maxNoted bounds what the webhook noted, in characters: what an event has room for.
	maxNoted = 600

	maxHostname = validation.DNS1123LabelMaxLength
	maxOwner    = validation.DNS1123SubdomainMaxLength // bytes of each part of an owner reference, quoted
)

// room is how many more bytes are kept.
type room int

// take reports whether there is room for so many bytes, and takes it.
func (r *room) take(n int) bool {
	if n > int(*r) {
		return false
	}
	*r -= room(n)
	return true
}

// beginning returns the first bytes of the text.
func beginning(text string, most int) string { return text[:min(len(text), most)] }

// end returns the last bytes of the text.
func end(text string, most int) string { return text[max(0, len(text)-most):] }

// leafOf returns annotation api.AnnotationLeaf of a pod that mounts these Secrets, or "" if
// it is longer than what the rotator writes there.
func leafOf(annotation string, mounted []string) string {
	if len(annotation) > api.LongestMounted(mounted) {
		return ""
	}
	return annotation
}
