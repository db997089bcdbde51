package kubeletsync

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Situation is the input of a decision about a pod.
type Situation struct {
	Now time.Time
	Pod *pods.Facts
	// Annotation is the pod's api.AnnotationLeaf.
	Annotation string
	// Secrets are the known contents of the mounted Secrets, by name. Serves are the names of those
	// whose leaf the pod is seen to serve.
	Secrets map[string]Content
	Serves  []string
	// Bundle is that of the pod's namespace, nil if there is none.
	Bundle *Content
	// Services are those of the pod's namespace, if its proxy reads which clients it admits.
	Services []*corev1.Service
}

// Decision is the result for the pod.
type Decision struct {
	// Wake: write Value into the pod's api.AnnotationLeaf.
	Wake  bool
	Value string
	// Dial has the Secrets, sorted, whose new certificate the pod should serve afterwards.
	Dial []string
	// Admits: write it into the pod's api.AnnotationAdmits; nil: do not.
	Admits *string
}

// Writes reports whether the pod is written.
func (d Decision) Writes() bool { return d.Wake || d.Admits != nil }

// Decide decides whether the pod's kubelet is woken, and which clients its proxy admits from now on.
func Decide(s Situation) Decision {
	var d Decision
	if !wakeable(s.Pod) {
		return d
	}
	d.Admits = s.admits()
	wanted, current := api.Mounted{Leaves: map[string]string{}}, api.ParseMounted(s.Annotation)
	for _, name := range s.Pod.Secrets() {
		content, ok := s.Secrets[name]
		if !ok {
			continue
		}
		wanted.Leaves[name] = content.Hash
		if s.awaits(content, current.Leaves[name]) && !slices.Contains(s.Serves, name) {
			d.Wake, d.Dial = true, append(d.Dial, name)
		}
	}
	if s.Bundle != nil && s.Pod.Template.Value().Bundle {
		wanted.Bundle = s.Bundle.Hash
		d.Wake = d.Wake || s.awaits(*s.Bundle, current.Bundle)
	}
	if d.Wake {
		d.Value = wanted.String()
	}
	return d
}

// admits returns the clients that the pod's proxy should admit, if they are not those that it admits. A list that is too long
// to be known whole is of neither the webhook nor the rotator, and the proxy refuses it. Nothing of it is kept: a port that no
// Service guards is closed then, which is safe, while keeping what somebody has padded would leave the guarded ports open.
func (s Situation) admits() *string {
	t := s.Pod.Template.Value()
	if t.Guarded == "" {
		return nil
	}
	before := s.Pod.Admits
	if !s.Pod.AdmitsWhole() {
		before = ""
	}
	value := api.AdmitsAfter(s.Services, t.LabelSet(), t.GuardedPorts(), before).Value
	if value == before { // also if no Service guards a port
		return nil
	}
	return &value
}

// awaits reports whether the pod may have other files than the content. hash is the content for
// which it was woken last.
func (s Situation) awaits(c Content, hash string) bool {
	return c.fresh(s.Now) && hash != c.Hash && !s.Pod.CreationTimestamp.After(c.Since)
}

// wakeable reports whether a change of the pod makes its kubelet update its files.
func wakeable(pod *pods.Facts) bool {
	left := pod.Template.Value().Left
	return pod.Running && pod.DeletionTimestamp == nil && left != pods.ReasonFinished && left != pods.ReasonMirrorPod
}
