package kubeletsync

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Situation is what a decision about a pod is made from.
type Situation struct {
	Now time.Time
	Pod *pods.Facts
	// Annotation is api.AnnotationLeaf of the pod, as it was last written.
	Annotation string
	// Secrets are the contents of those that the pod mounts, by name, as far as they
	// are known, and Serves the names of those whose leaf the pod is seen to serve.
	Secrets map[string]Content
	Serves  []string
	// Bundle is that of the pod's namespace, nil if there is none.
	Bundle *Content
}

// Decision is what follows for the pod.
type Decision struct {
	// Wake: Value is to be written into api.AnnotationLeaf of the pod.
	Wake  bool
	Value string
	// Dial are the Secrets, sorted, of which the pod should serve another certificate
	// afterwards.
	Dial []string
}

// Decide says whether the pod is woken.
func Decide(s Situation) Decision {
	var d Decision
	if !wakeable(s.Pod) {
		return d
	}
	wanted, said := api.Mounted{Leaves: map[string]string{}}, api.ParseMounted(s.Annotation)
	for _, name := range s.Pod.Secrets() {
		content, ok := s.Secrets[name]
		if !ok {
			continue
		}
		wanted.Leaves[name] = content.Hash
		if s.awaits(content, said.Leaves[name]) && !slices.Contains(s.Serves, name) {
			d.Wake, d.Dial = true, append(d.Dial, name)
		}
	}
	if s.Bundle != nil && s.Pod.Template.Value().Bundle {
		wanted.Bundle = s.Bundle.Hash
		d.Wake = d.Wake || s.awaits(*s.Bundle, said.Bundle)
	}
	if d.Wake {
		d.Value = wanted.String()
	}
	return d
}

// awaits reports whether the pod may hold other files than the content. said is
// what it was woken for last.
func (s Situation) awaits(c Content, said string) bool {
	return c.fresh(s.Now) && said != c.Hash && !s.Pod.CreationTimestamp.After(c.Since)
}

// wakeable reports whether the pod's files are updated when the pod changes.
func wakeable(pod *pods.Facts) bool {
	left := pod.Template.Value().Left
	return pod.Running && pod.DeletionTimestamp == nil && left != pods.ReasonFinished && left != pods.ReasonMirrorPod
}
