package uninjected

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Why a pod is not missed, beside the reasons of package pods, in the order of the checks.
const (
	ReasonNotOptedIn   pods.Reason = "NotOptedIn"   // its namespace is not labelled, or is being deleted
	ReasonExcluded     pods.Reason = "Excluded"     // the webhook excludes its namespace by name
	ReasonDeleting     pods.Reason = "Deleting"     // it is being deleted
	ReasonNotServing   pods.Reason = "NotServing"   // the traffic of its Services cannot reach it
	ReasonNotConcerned pods.Reason = "NotConcerned" // it would get no Secret
	ReasonMounts       pods.Reason = "Mounts"       // it mounts the Secret
	ReasonExplained    pods.Reason = "Explained"    // its status has the webhook's reason
)

// Why a pod is missed.
const (
	// ReasonNotInjected: it would be injected if it were created now.
	ReasonNotInjected pods.Reason = "NotInjected"
	// ReasonMistake: it would be rejected because of an invalid annotation, and injected otherwise.
	ReasonMistake pods.Reason = "Mistake"
)

// Choice is the key that a pod would get if it were created now.
type Choice struct {
	Key     pods.Key // zero if it would get none
	Service string   // that asks for it and selects the pod; empty if none does
	// Conventional: it is the conventional one, for which no Service asks.
	Conventional bool
	// NotServing: it would get none, because the traffic of the Services that select it cannot
	// reach it.
	NotServing bool
}

// Place has what the decision about a pod needs of its namespace.
type Place struct {
	OptedIn  bool // labelled, and not being deleted
	Excluded bool // from injection, by its name
	// Services are those that ask for a Secret, in any order.
	Services []*corev1.Service
	// Conventional: the conventional Secret exists in it.
	Conventional bool
	// Annotations are those of the Namespace that matter here.
	Annotations map[string]string
	// Elsewhere returns a Service of another opted-in namespace that asks for a Secret, or nil; nil if
	// connections to other namespaces are not compared.
	Elsewhere func(namespace, name string) *corev1.Service
}

// Verdict is the result for one pod.
type Verdict struct {
	Reason pods.Reason
	Choice Choice // zero if the reason was found before
	// Drift is how the proxy of a pod that was not missed connects to Services otherwise than that of
	// a new pod would.
	Drift []choose.Difference
}

// Missed reports whether the pod runs without the Secret that it would get today.
func (v Verdict) Missed() bool { return v.Reason == ReasonNotInjected || v.Reason == ReasonMistake }

// Evaluate decides whether the pod was missed, and why or why not, and whether it connects to Services as a new one
// would. All pods of one template that are not being deleted get the same verdict.
func Evaluate(pod *pods.Facts, place Place) Verdict {
	c := candidate{pod: pod, template: pod.Template.Value(), place: place}
	if reason := c.first(namespaceChecks); reason != "" {
		return Verdict{Reason: reason}
	}
	known := choose.Known{
		In: pod.Namespace, Services: place.Services, Elsewhere: place.Elsewhere,
		ConventionalSecret: place.Conventional, Namespace: place.Annotations,
	}
	client := pod.Client()
	request, _ := api.ParsePod(&client.ObjectMeta) // an error is the template's Mistake
	request.SecretName = c.template.SecretName
	chosen := choose.Secret(client, request, known)
	c.choice = choiceOf(chosen)
	v := Verdict{Reason: cmp.Or(c.first(choiceChecks), ReasonNotInjected), Choice: c.choice}
	if !v.Missed() && c.template.Mistake == "" {
		v.Drift = chosen.Drift(client, known)
	}
	return v
}

// choiceOf returns the key that the webhook chose.
func choiceOf(c choose.Choice) Choice {
	key := pods.SecretKey(c.Secret)
	if c.PodKey != nil {
		key = pods.PodKey
	}
	return Choice{Key: key, Service: c.Service, Conventional: c.By == choose.ByConvention, NotServing: c.NotServing}
}

// candidate is a pod and the input of its checks.
type candidate struct {
	pod      *pods.Facts
	template pods.Template
	place    Place
	choice   Choice // zero during namespaceChecks
}

// check returns the reason for the verdict, or "" if the check does not apply.
type check func(candidate) pods.Reason

// namespaceChecks run before the pod's Secret is chosen, and choiceChecks after. The first that
// applies gives the reason; without any, the pod was not injected.
var (
	namespaceChecks = []check{
		func(c candidate) pods.Reason { return when(!c.place.OptedIn, ReasonNotOptedIn) },
		func(c candidate) pods.Reason { return when(c.place.Excluded, ReasonExcluded) },
		func(c candidate) pods.Reason { return when(c.pod.DeletionTimestamp != nil, ReasonDeleting) },
		func(c candidate) pods.Reason { return c.template.Left },
	}
	choiceChecks = []check{
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
