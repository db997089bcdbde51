package pods

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Given is what the webhook's status says of a pod that it injected. A status can be forged by
// whoever may create pods. All that follows from it concerns pods and Services of the pod's own
// namespace, if that is opted in.
type Given struct {
	Service, Secret string // for which; one or both may be empty
	Injected        bool
}

// givenOf returns what the status s says of a pod. left is why the webhook leaves the pod
// alone: it did not write that status then.
func givenOf(pod *corev1.Pod, s api.InjectionStatus, left Reason) Given {
	if len(s.Containers) == 0 || pod.Labels[api.LabelInjected] != "true" || left != "" && left != ReasonFinished {
		return Given{}
	}
	g := Given{Injected: true}
	if len(validation.IsDNS1123Label(s.Service)) == 0 {
		g.Service = s.Service
	}
	if len(validation.IsDNS1123Subdomain(s.Secret)) == 0 {
		g.Secret = s.Secret
	}
	return g
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
