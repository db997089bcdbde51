package rotator

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason is what the judgement of a pod rests on.
type Reason string

// Why a pod is not missed, in the order in which it is asked.
const (
	ReasonNotOptedIn   Reason = "NotOptedIn"        // its namespace is not labelled, or is being deleted
	ReasonExcluded     Reason = "Excluded"          // the webhook leaves its namespace out by name
	ReasonDeleting     Reason = "Deleting"          // it is on its way out
	ReasonMirrorPod    Reason = api.ExemptMirrorPod // it mirrors a static pod
	ReasonOptedOut     Reason = api.ExemptOptedOut  // its label says so
	ReasonWindows      Reason = api.ExemptWindows   // nothing is injected into Windows pods
	ReasonFinished     Reason = "Finished"          // its containers have ended for good
	ReasonNotConcerned Reason = "NotConcerned"      // it would get no Secret
	ReasonMounts       Reason = "Mounts"            // it has the Secret in a volume
	ReasonExplained    Reason = "Explained"         // the webhook saw it and said why nothing was injected
)

// Why a pod is missed.
const (
	// ReasonNotInjected: it would be injected if it were created now.
	ReasonNotInjected Reason = "NotInjected"
	// ReasonMistake: so it would if one of its annotations were right; as it is,
	// it would be refused.
	ReasonMistake Reason = "Mistake"
)

// Choose says which Secret a pod with these labels, that names the given Secret
// or none, would get if it were created now beside these Services of its
// namespace. conventional: the conventional Secret exists, and the pod is one that
// gets it unless something else decides. The webhook decides; cmd wires its
// decision.
type Choose func(labels map[string]string, secretName string, conventional bool, services []*corev1.Service) Choice

// Choice is the Secret that a pod would get.
type Choice struct {
	Secret  string // empty if it would get none
	Service string // that asks for it and selects the pod; empty if none does
	// Conventional: it is the conventional one, that nobody asks for.
	Conventional bool
}

// Place is what a pod's namespace is to the judgement.
type Place struct {
	OptedIn  bool // labelled, and not being deleted
	Excluded bool // from injection, by its name
	// Services are those that ask for a Secret, in any order.
	Services []*corev1.Service
	// Conventional: the conventional Secret exists in it.
	Conventional bool
}

// Verdict is what is found of one pod.
type Verdict struct {
	Reason Reason
	Choice Choice // zero if the reason comes before it in order
}

// Missed reports whether the pod runs without what it would get today.
func (v Verdict) Missed() bool { return v.Reason == ReasonNotInjected || v.Reason == ReasonMistake }

// Judge says whether the pod is missed, and why or why not. Of pods that are not
// being deleted, those of one template get one verdict.
func Judge(pod *PodFacts, place Place, choose Choose) Verdict {
	t := pod.Template.Value()
	switch {
	case !place.OptedIn:
		return Verdict{Reason: ReasonNotOptedIn}
	case place.Excluded:
		return Verdict{Reason: ReasonExcluded}
	case pod.DeletionTimestamp != nil:
		return Verdict{Reason: ReasonDeleting}
	case t.Left != "":
		return Verdict{Reason: t.Left}
	}
	v := Verdict{Reason: ReasonNotInjected, Choice: choose(decodeLabels(t.Labels), t.SecretName, place.Conventional && t.Conventional, place.Services)}
	for _, check := range checks {
		if check.applies(t, v.Choice) {
			v.Reason = check.reason
			break
		}
	}
	return v
}

// checks are asked in order; the first that applies is the reason. What is not
// missed by any of them is missed.
var checks = []struct {
	reason  Reason
	applies func(t Template, c Choice) bool
}{
	{ReasonNotConcerned, func(_ Template, c Choice) bool { return c.Secret == "" }},
	{ReasonMounts, func(t Template, c Choice) bool { return slices.Contains(strings.Split(t.Mounts, ","), c.Secret) }},
	{ReasonExplained, func(t Template, c Choice) bool { return t.Explained == c.Secret }},
	{ReasonMistake, func(t Template, _ Choice) bool { return t.Mistake != "" }},
}
