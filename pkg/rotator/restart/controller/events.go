package controller

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
)

// The reasons of events about restarts, on the workload (on the pod, for bare
// pods), with the Service related to it.
const (
	// EventRestarted: its pods were stale and requested a restart.
	EventRestarted = "Restarted"
	// EventRestartHeld: it will be restarted when the cause in the note has changed.
	EventRestartHeld = "RestartHeld"
	// EventRestartNotPossible: a person has to restart it or replace its pods.
	EventRestartNotPossible = "RestartNotPossible"
	// EventRestartStuck: it was restarted, and its rollout is not progressing.
	EventRestartStuck = "RestartStuck"
)

const actionRestart = "Restart"

type eventWriter struct {
	recorder events.EventRecorder
}

func (w eventWriter) restarted(namespace string, start restart.Start) {
	regarding, related := start.Stale.Objects(namespace, start.UID)
	w.recorder.Eventf(regarding, related, corev1.EventTypeNormal, EventRestarted, actionRestart,
		"%s; restarted, because annotation %s asks for it", start.Stale.Note(), api.AnnotationOnRotate)
}

// held reports why a workload is not restarted. Events with equal action, reason and object are
// merged, whatever their note: so the action is the hold.
func (w eventWriter) held(namespace string, h restart.Held) {
	regarding, related := h.Stale.Objects(namespace, h.UID)
	reason, then := EventRestartHeld, "it will be restarted when that has changed"
	if h.Hold.ByHand() {
		reason, then = EventRestartNotPossible, advice(namespace, h)
	}
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, reason, string(h.Hold),
		"%s; not restarted: %s; %s", h.Stale.Note(), pods.Shorten(h.Message), then)
}

func (w eventWriter) stuck(namespace string, s restart.Stuck) {
	w.recorder.Eventf(s.Workload.Reference(namespace, s.UID), nil, corev1.EventTypeWarning, EventRestartStuck, actionRestart,
		"restarted so that its pods serve the new certificate, but the rollout is not complete: %s (%s); until it is, no other workload of namespace %s is restarted: %s",
		s.Message, s.Progress, namespace, api.CommandText([]string{s.Workload.Name}, "kubectl", "rollout", "status", strings.ToLower(s.Workload.Kind)+"/"+s.Workload.Name, "-n", namespace))
}

// advice states what a person has to do if the hold does not end otherwise.
func advice(namespace string, h restart.Held) string {
	if h.Hold.OnlyPods() {
		return "delete those pods one by one: " + api.CommandText([]string{h.Stale.Pod}, "kubectl", "delete", "pod", h.Stale.Pod, "-n", namespace)
	}
	return h.Stale.Workload.Advice(namespace, h.Stale.Pod)
}
