package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/rotator/missed"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// EventMissed is the reason of an event on a workload, or on the Service for bare
// pods: they run without the Secret that they would get if they were created now.
const EventMissed = "PodsNotInjected"

const actionInject = "Inject"

type eventWriter struct {
	recorder events.EventRecorder
}

func (w eventWriter) missed(namespace string, g missed.Group, services []*corev1.Service) {
	regarding, related := objects(g, namespace, services)
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject, "%s", note(g, namespace))
}

// more reports many workloads at once, on the first of them.
func (w eventWriter) more(namespace string, rest []missed.Group, services []*corev1.Service) {
	total := 0
	for _, g := range rest {
		total += g.Pods
	}
	regarding, related := objects(rest[0], namespace, services)
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject,
		"not injected either in namespace %s: this workload and %d more, with %d pods together; restart each of them", namespace, len(rest)-1, total)
}

// note says what was found, what may be the cause, and what to do.
func note(g missed.Group, namespace string) string {
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
func objects(g missed.Group, namespace string, services []*corev1.Service) (regarding, related runtime.Object) {
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
