package pods

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Given is what the webhook's status says of a pod that it injected and of which an
// attempt was made or withheld. A status can be forged by whoever may create pods. All
// that follows from it concerns pods and Services of the pod's own namespace, if that is
// opted in.
type Given struct {
	Service, Secret string // one may be empty
	// Attempts is CONTAINER=ATTEMPT,… with "!" before the container if the attempt was
	// withheld. A string, because a Template is compared as a whole.
	Attempts string
}

// givenOf returns what the status s says of a pod. left is why the webhook leaves the pod
// alone: it did not write that status then.
func givenOf(pod *corev1.Pod, s api.InjectionStatus, left Reason) Given {
	attempts := s.ContainerAttempts()
	if len(attempts) == 0 || pod.Labels[api.LabelInjected] != "true" || left != "" && left != ReasonFinished {
		return Given{}
	}
	var g Given
	var b strings.Builder
	for i, a := range attempts {
		if i > 0 {
			b.WriteByte(',')
		}
		if a.Withheld {
			b.WriteByte('!')
		}
		b.WriteString(a.Container + "=" + a.Attempt)
	}
	g.Attempts = b.String()
	if len(validation.IsDNS1123Label(s.Service)) == 0 {
		g.Service = s.Service
	}
	if len(validation.IsDNS1123Subdomain(s.Secret)) == 0 {
		g.Secret = s.Secret
	}
	return g
}

// ContainerAttempts returns the attempts that were made with the pods' containers, and
// those that were withheld.
func (t *Template) ContainerAttempts() []api.ContainerAttempt {
	if t.Given.Attempts == "" {
		return nil
	}
	var out []api.ContainerAttempt
	for entry := range strings.SplitSeq(t.Given.Attempts, ",") {
		name, attempt, _ := strings.Cut(entry, "=")
		container, withheld := strings.CutPrefix(name, "!")
		out = append(out, api.ContainerAttempt{Container: container, Attempt: attempt, Withheld: withheld})
	}
	return out
}

// Revision returns which version of its workload's template the pods were made from, as
// their controller labels them; "" if it does not.
func (t *Template) Revision() string {
	labels := t.LabelSet()
	return cmp.Or(labels[appsv1.DefaultDeploymentUniqueLabelKey], labels[appsv1.ControllerRevisionHashLabelKey])
}

// notedOf returns what the webhook noted on a pod of the workload, if that can be named in an event.
func notedOf(status api.InjectionStatus, of Workload) string {
	if !of.Restartable() {
		return ""
	}
	return strings.Clone(api.Shorten(strings.Join(status.Notes, "; "), maxNoted))
}
