package uninjected

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Why a pod is not missed, beside the reasons of package pods, in the order in
// which they are checked.
const (
	ReasonNotOptedIn   pods.Reason = "NotOptedIn"   // its namespace is not labelled, or is being deleted
	ReasonExcluded     pods.Reason = "Excluded"     // the webhook excludes its namespace by name
	ReasonDeleting     pods.Reason = "Deleting"     // it is being deleted
	ReasonNotServing   pods.Reason = "NotServing"   // the traffic of the Services that select it cannot reach it
	ReasonNotConcerned pods.Reason = "NotConcerned" // it would get no Secret
	ReasonMounts       pods.Reason = "Mounts"       // it has the Secret in a volume
	ReasonExplained    pods.Reason = "Explained"    // the webhook saw it and said why nothing was injected
)

// Why a pod is missed.
const (
	// ReasonNotInjected: it would be injected if it were created now.
	ReasonNotInjected pods.Reason = "NotInjected"
	// ReasonMistake: it would be injected if one of its annotations were right; as
	// it is, it would be refused.
	ReasonMistake pods.Reason = "Mistake"
)

// Choose returns the key that a pod of the template would get if it were created
// now beside these Services of its namespace. conventional: the conventional Secret
// exists there. The webhook decides; cmd wires its decision.
type Choose func(t pods.Template, conventional bool, services []*corev1.Service) Choice

// Choice is the key that a pod would get.
type Choice struct {
	Key     pods.Key // zero if it would get none
	Service string   // that asks for it and selects the pod; empty if none does
	// Conventional: it is the conventional one, for which no Service asks.
	Conventional bool
	// NotServing: it would get none, because the traffic of the Services that select
	// it cannot reach it.
	NotServing bool
}

// Place is the namespace of a pod, as far as the judgement depends on it.
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
	Reason pods.Reason
	Choice Choice // zero if the reason comes before it in order
}

// Missed reports whether the pod runs without the Secret that it would get today.
func (v Verdict) Missed() bool { return v.Reason == ReasonNotInjected || v.Reason == ReasonMistake }

// Judge says whether the pod is missed, and why or why not. All pods of one
// template that are not being deleted get the same verdict.
func Judge(pod *pods.Facts, place Place, choose Choose) Verdict {
	c := candidate{pod: pod, template: pod.Template.Value(), place: place}
	if reason := c.first(checksOfThePlace); reason != "" {
		return Verdict{Reason: reason}
	}
	c.choice = choose(c.template, place.Conventional, place.Services)
	if reason := c.first(checksOfTheChoice); reason != "" {
		return Verdict{reason, c.choice}
	}
	return Verdict{ReasonNotInjected, c.choice}
}

// candidate is a pod and what is known about it.
type candidate struct {
	pod      *pods.Facts
	template pods.Template
	place    Place
	choice   Choice // zero while it is not known
}

// check returns why the pod is judged as it is, or an empty reason if the check
// does not apply.
type check func(candidate) pods.Reason

// checksOfThePlace are asked in order before it is known which Secret the pod
// would get, and checksOfTheChoice after. The first that applies is the reason;
// without any, the pod was not injected.
var (
	checksOfThePlace = []check{
		func(c candidate) pods.Reason { return when(!c.place.OptedIn, ReasonNotOptedIn) },
		func(c candidate) pods.Reason { return when(c.place.Excluded, ReasonExcluded) },
		func(c candidate) pods.Reason { return when(c.pod.DeletionTimestamp != nil, ReasonDeleting) },
		func(c candidate) pods.Reason { return c.template.Left },
	}
	checksOfTheChoice = []check{
		func(c candidate) pods.Reason { return when(c.choice.NotServing, ReasonNotServing) },
		func(c candidate) pods.Reason { return when(c.choice.Key == pods.Key{}, ReasonNotConcerned) },
		func(c candidate) pods.Reason {
			return when(c.template.Mounts(c.choice.Key), ReasonMounts)
		},
		func(c candidate) pods.Reason { return when(c.template.Explained == c.choice.Key, ReasonExplained) },
		func(c candidate) pods.Reason { return when(c.template.Mistake != "", ReasonMistake) },
	}
)

func when(applies bool, reason pods.Reason) pods.Reason {
	if applies {
		return reason
	}
	return ""
}

func (c candidate) first(checks []check) pods.Reason {
	for _, check := range checks {
		if reason := check(c); reason != "" {
			return reason
		}
	}
	return ""
}
