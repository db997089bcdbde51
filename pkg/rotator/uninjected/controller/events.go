package controller

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// EventMissed is the reason of an event on a workload, or on the Service for bare pods: they run
// without the Secret that they would get if they were created now.
const EventMissed = "PodsNotInjected"

// EventNoted is the reason of an event on a workload with the webhook's notes on its pods. A
// controller created them, so nobody has read the webhook's warnings.
const EventNoted = "WebhookNoted"

// EventOutdated is the reason of an event on a workload, or on a bare pod: its proxies do not connect to Services as those
// of new pods would, because a Service has changed.
const EventOutdated = "ConnectionsOutdated"

const actionInject = "Inject"

type eventWriter struct {
	recorder events.EventRecorder
}

// one sends the event of one group.
func (w eventWriter) one(namespace string, g uninjected.Group, services []*corev1.Service) {
	regarding, related := objects(g, namespace, services)
	switch {
	case g.Noted != "":
		w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventNoted, actionOf(g.Noted), "%s", noted(g))
	case g.Drift != "":
		w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventOutdated, actionOfDrift(g), "%s", outdated(g, namespace))
	default:
		w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject, "%s", note(g, namespace))
	}
}

// more sends one event for many missed workloads, on the first of them, one for many with outdated
// connections, and one for many with notes.
func (w eventWriter) more(namespace string, rest []uninjected.Group, services []*corev1.Service) {
	var missed, drifted, noted []uninjected.Group
	for _, g := range rest {
		switch {
		case g.Noted != "":
			noted = append(noted, g)
		case g.Drift != "":
			drifted = append(drifted, g)
		default:
			missed = append(missed, g)
		}
	}
	w.together(namespace, missed, services, EventMissed,
		"also not injected in namespace %s: this workload and %d more, with %d pods together; restart each of them")
	w.together(namespace, drifted, services, EventOutdated,
		"also not connected to Services as new pods would be in namespace %s: this workload and %d more, with %d pods together; kubectl servingcert doctor lists them (SC504)")
	w.together(namespace, noted, services, EventNoted,
		"the webhook added notes in namespace %s to pods of this workload and of %d more, with %d pods together: see their annotation "+api.AnnotationStatus)
}

func (w eventWriter) together(namespace string, all []uninjected.Group, services []*corev1.Service, reason, format string) {
	if len(all) == 0 {
		return
	}
	total := 0
	for _, g := range all {
		total += g.Pods
	}
	regarding, related := objects(all[0], namespace, services)
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, reason, actionInject, format, namespace, len(all)-1, total)
}

// actionOf returns the reason of the first note, REASON: TEXT. Events with equal action, reason and
// object are merged, whatever their note.
func actionOf(noted string) string {
	reason, _, _ := strings.Cut(noted, ": ")
	if !isReason(reason) {
		return actionInject
	}
	return reason
}

// actionOfDrift returns the kind of the first difference, and a hash of all: another change of a Service within minutes is
// another event.
func actionOfDrift(g uninjected.Group) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(g.Drift))
	return fmt.Sprintf("%s-%08x", g.Kind, hash.Sum32())
}

// maxReason is the maximum length of a reason in bytes.
const maxReason = 100

// isReason reports whether s can be the reason of a note: ASCII letters.
func isReason(s string) bool {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	return s != "" && len(s) <= maxReason && strings.TrimFunc(s, letter) == ""
}

// maxQuoted is the maximum length of a quoted note in characters: an event's note has 1024.
const maxQuoted = 600

// noted quotes the webhook's notes, because whoever may create a pod controls its annotations.
func noted(g uninjected.Group) string {
	which := "pod " + g.Pod
	if g.Pods > 1 {
		which = fmt.Sprintf("%d pods (%s among them)", g.Pods, g.Pod)
	}
	return fmt.Sprintf("the webhook noted on %s: %s", which, api.Shorten(strconv.Quote(g.Noted), maxQuoted))
}

// outdated states the finding, which calls fail, and what to do: a restart is no remedy if new pods would not connect.
func outdated(g uninjected.Group, namespace string) string {
	which := "pod " + g.Pod + " does"
	if g.Pods > 1 {
		which = fmt.Sprintf("%d pods (%s among them) do", g.Pods, g.Pod)
	}
	what := g.Workload.Advice(namespace, g.Pod)
	if g.LeftOut {
		what = "correct that before you restart it: calls of new pods would not go through the proxy"
	}
	return fmt.Sprintf("%s not connect to Services as new pods would: %s; %s", which, g.Drift, what)
}

// note states the finding, the possible cause, and what to do.
func note(g uninjected.Group, namespace string) string {
	were, they := fmt.Sprintf("pod %s was", g.Pod), "it was"
	if g.Pods > 1 {
		were, they = fmt.Sprintf("%d pods (%s among them) were", g.Pods, g.Pod), "they were"
	}
	because := "which the pod's annotation requests"
	switch {
	case g.Service != "":
		because = "which Service " + g.Service + " requests"
	case g.Conventional:
		because = "which every new pod with a port gets in this namespace"
	}
	what := "its own key"
	if secret, ok := g.Gets.Secret(); ok {
		what = "Secret " + secret
	}
	text := fmt.Sprintf("%s not injected with %s, %s: %s created before that, before the namespace was labelled, or while the webhook was not available; ",
		were, what, because, they)
	if g.Mistake != "" {
		text += "correct " + pods.Shorten(g.Mistake) + "; then "
	}
	return text + g.Workload.Advice(namespace, g.Pod)
}

// objects returns the object of an event, and the related Service or nil.
func objects(g uninjected.Group, namespace string, services []*corev1.Service) (regarding, related runtime.Object) {
	var service *corev1.ObjectReference
	for _, s := range services {
		if g.Service == s.Name {
			service = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: s.Name, UID: s.UID}
		}
	}
	switch {
	case !g.Workload.Bare():
		regarding = g.Workload.Reference(namespace, "")
		if service == nil {
			return regarding, nil
		}
		return regarding, service
	case service != nil:
		return service, nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: g.Pod, UID: g.PodUID}, nil
}
