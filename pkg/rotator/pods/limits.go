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

	// maxCrashes bounds the containers with an attempt that crash, and those without.
	maxCrashes = 16
	// maxMessage and maxMessages bound a termination message, and those of all
	// containers, in bytes. A kubelet that takes one from the log writes no more, and no
	// more for a pod.
	maxMessage  = 2 << 10
	maxMessages = 12 << 10
	maxReason   = 64 // bytes of why a container has ended
	// maxNoted bounds what the webhook noted, in characters: what an event has room for.
	maxNoted = 600
	// maxNames and maxName bound the names of flags and variables of all containers that
	// crash, and the bytes of each: as many as a flag may have that an annotation names.
	maxNames = 32
	maxName  = 100
	// maxDirectories bounds in how many directories of a container such names are
	// looked for.
	maxDirectories = 8

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

// IsName reports whether it can be the name of a flag or a variable, without dashes in
// front: ASCII letters, digits, hyphens, underscores and dots.
func IsName(s string) bool {
	some := false
	for i := range min(len(s), maxName+1) {
		switch b := s[i]; {
		case '0' <= b && b <= '9', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			some = true
		case b != '-' && b != '_' && b != '.':
			return false
		}
	}
	return some && len(s) <= maxName
}
