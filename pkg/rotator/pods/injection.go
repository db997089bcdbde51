package pods

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// Injection is what the webhook's status reports about an injected pod. Whoever may create pods can
// forge a status. It therefore affects only pods and Services of the pod's own namespace, and only
// if that is opted in.
type Injection struct {
	Service, Secret string // that the injection is for; may be empty
	Injected        bool
}

// injectionOf returns the injection that status s reports. If the pod is exempt (left), the webhook
// did not write the status.
func injectionOf(pod *corev1.Pod, s api.InjectionStatus, left Reason) Injection {
	if len(s.Containers) == 0 || pod.Labels[api.LabelInjected] != "true" || left != "" && left != ReasonFinished {
		return Injection{}
	}
	g := Injection{Injected: true}
	if len(validation.IsDNS1123Label(s.Service)) == 0 {
		g.Service = s.Service
	}
	if len(validation.IsDNS1123Subdomain(s.Secret)) == 0 {
		g.Secret = s.Secret
	}
	return g
}

// Revision returns the version of the workload's template, by the label that its controller writes;
// "" without one.
func (t *Template) Revision() string {
	labels := t.LabelSet()
	return cmp.Or(labels[appsv1.DefaultDeploymentUniqueLabelKey], labels[appsv1.ControllerRevisionHashLabelKey])
}

// notedOf returns the webhook's notes on a pod of the workload, if an event can name the workload, except those of which
// the webhook does not warn either.
func notedOf(status api.InjectionStatus, of Workload) string {
	if !of.Restartable() {
		return ""
	}
	warned := slices.DeleteFunc(slices.Clone(status.Notes), func(note string) bool {
		reason, _, _ := strings.Cut(note, ": ")
		return reasons.Of(reasons.Reason(reason)).Silent
	})
	return strings.Clone(api.Shorten(strings.Join(warned, "; "), maxNoted))
}
