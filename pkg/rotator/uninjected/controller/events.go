package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// EventMissed is the reason of an event on a workload, or on the Service for bare
// pods: they run without the Secret that they would get if they were created now.
const EventMissed = "PodsNotInjected"

// EventNoted is the reason of an event on a workload: what the webhook noted on its pods,
// which a controller made, so that nobody has read the webhook's warnings.
const EventNoted = "WebhookNoted"

const actionInject = "Inject"

type eventWriter struct {
	recorder events.EventRecorder
}

// one reports one group.
func (w eventWriter) one(namespace string, g uninjected.Group, services []*corev1.Service) {
	regarding, related := objects(g, namespace, services)
	if g.Noted != "" {
		w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventNoted, actionOf(g.Noted), "%s", noted(g))
		return
	}
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject, "%s", note(g, namespace))
}

// more reports many workloads at once, on the first of them: those that were missed, and those on which the
// webhook noted something.
func (w eventWriter) more(namespace string, rest []uninjected.Group, services []*corev1.Service) {
	isNoted := func(g uninjected.Group) bool { return g.Noted != "" }
	isMissed := func(g uninjected.Group) bool { return g.Noted == "" }
	w.together(namespace, slices.DeleteFunc(slices.Clone(rest), isNoted), services, EventMissed,
		"not injected either in namespace %s: this workload and %d more, with %d pods together; restart each of them")
	w.together(namespace, slices.DeleteFunc(slices.Clone(rest), isMissed), services, EventNoted,
		"the webhook noted something in namespace %s on pods of this workload and of %d more, with %d pods together: see their annotation "+api.AnnotationStatus)
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

// actionOf returns the reason of the first note, REASON: TEXT. An event of the same action, reason and object is
// taken for the same again, whatever its note says.
func actionOf(noted string) string {
	reason, _, _ := strings.Cut(noted, ": ")
	if !isReason(reason) {
		return actionInject
	}
	return reason
}

// maxReason is how many bytes a reason has at most.
const maxReason = 100

// isReason reports whether it can be the reason of a note: ASCII letters.
func isReason(s string) bool {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
	return s != "" && len(s) <= maxReason && strings.TrimFunc(s, letter) == ""
}

// maxQuoted is how many characters of what was noted an event quotes: its note has room for 1024.
const maxQuoted = 600

// noted says what the webhook noted. Whoever may create a pod decides what is in its annotations, so that it is
// quoted.
func noted(g uninjected.Group) string {
	which := "pod " + g.Pod
	if g.Pods > 1 {
		which = fmt.Sprintf("%d pods (%s among them)", g.Pods, g.Pod)
	}
	return fmt.Sprintf("on %s the webhook noted %s", which, api.Shorten(strconv.Quote(g.Noted), maxQuoted))
}

// note says what was found, what may be the cause, and what to do.
func note(g uninjected.Group, namespace string) string {
	were, they := fmt.Sprintf("pod %s was", g.Pod), "it was"
	if g.Pods > 1 {
		were, they = fmt.Sprintf("%d pods (%s among them) were", g.Pods, g.Pod), "they were"
	}
	because := "for which the pod's annotation asks"
	switch {
	case g.Service != "":
		because = "for which Service " + g.Service + " asks"
	case g.Conventional:
		because = "which every new pod of the namespace gets that declares a port"
	}
	what := "a key of its own"
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

// objects returns what an event is about, and the Service related to it or nil.
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
