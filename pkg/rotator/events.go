package rotator

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
)

// EventMissed is told on a workload, or on the Service for bare pods: they run
// without the Secret that they would get if they were created now.
const EventMissed = "PodsNotInjected"

// EventServesOld is told on a workload whose pods serve an older certificate than
// the Secret holds and may not be restarted, or would not be helped by it.
const EventServesOld = "ServesOldCertificate"

const (
	actionInject = "Inject"
	actionReload = "Reload"
	actionMount  = "Mount"
)

// maxMistake bounds what a note repeats of a user's words; a note has room for
// 1024 characters.
const maxMistake = 300

type eventWriter struct {
	recorder events.EventRecorder
}

func (w eventWriter) missed(namespace string, m miss, services []*corev1.Service) {
	regarding, related := m.objects(namespace, services)
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject, "%s", m.note(namespace))
}

// servesOld tells of stale pods, unless a restart does or nobody wants to know.
func (w eventWriter) servesOld(s consumersSituation, t told) {
	if t.onRotate == api.OnRotateNone || t.onRotate == api.OnRotateRestart && !t.elsewhere {
		return
	}
	stale := s.staleOf(t)
	regarding, related := stale.objects(s.namespace, t.workload.UID)
	action := actionReload // what is told with another is another event, whatever the note says
	todo := fmt.Sprintf("it does not reload its files: %s; with annotation %s: restart on its pod template that is done for it", t.workload.advice(s.namespace, t.pod), api.AnnotationOnRotate)
	switch {
	case t.elsewhere:
		action = actionMount
		todo = "it was created later, and so reads the certificate from somewhere else than the volume, or through a subPath, which never changes"
	case t.workload == Workload{}:
		todo = "it does not reload its files: recreate it"
	}
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventServesOld, action, "%s; %s", stale.note(), todo)
}

// more tells of many workloads at once, on the first of them.
func (w eventWriter) more(namespace string, rest []miss, services []*corev1.Service) {
	pods := 0
	for _, m := range rest {
		pods += m.pods
	}
	regarding, related := rest[0].objects(namespace, services)
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventMissed, actionInject,
		"%d pods of this and %d more workloads of namespace %s were not injected either; each needs a restart", pods, len(rest)-1, namespace)
}

// note says what was found, what may have led to it, and what to do.
func (m miss) note(namespace string) string {
	pods, were := fmt.Sprintf("pod %s", m.pod), "was"
	if m.pods > 1 {
		pods, were = fmt.Sprintf("%d pods (%s and others)", m.pods, m.pod), "were"
	}
	because := "as its annotation asks"
	switch {
	case m.service != "":
		because = "as Service " + m.service + " asks"
	case m.conventional:
		because = "which every new pod of the namespace gets that declares a port"
	}
	note := fmt.Sprintf("%s %s not injected with Secret %s, %s: created before that or before the namespace's label, or while the webhook was away; ",
		pods, were, m.secret, because)
	if m.mistake != "" {
		note += "correct " + shorten(m.mistake) + "; then "
	}
	return note + m.workload.advice(namespace, m.pod)
}

// objects returns what an event is about, and the Service beside it or nil.
func (m miss) objects(namespace string, services []*corev1.Service) (regarding, related runtime.Object) {
	var service *corev1.ObjectReference
	for _, s := range services {
		if m.service == s.Name {
			service = &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: s.Name, UID: s.UID}
		}
	}
	switch {
	case m.workload != Workload{}:
		regarding = reference(namespace, m.workload, "")
		if service == nil {
			return regarding, nil
		}
		return regarding, service
	case service != nil:
		return service, nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: m.pod, UID: m.podUID}, nil
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxMistake {
		return string(r[:maxMistake]) + "…"
	}
	return s
}
