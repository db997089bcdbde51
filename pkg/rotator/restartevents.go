package rotator

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// What is told of restarts, on the workload (on the pod, of bare pods), with the
// Service beside it.
const (
	// EventRestarted: its pods served an old certificate and asked for it.
	EventRestarted = "Restarted"
	// EventRestartHeld: it will be, when what the event says has changed.
	EventRestartHeld = "RestartHeld"
	// EventRestartNotPossible: a person has to do it.
	EventRestartNotPossible = "RestartNotPossible"
	// EventRestartStuck: it was restarted, and its rollout does not get on.
	EventRestartStuck = "RestartStuck"
)

const actionRestart = "Restart"

func (w eventWriter) restarted(namespace string, s staleWorkload, uid types.UID) {
	regarding, related := s.objects(namespace, uid)
	w.recorder.Eventf(regarding, related, corev1.EventTypeNormal, EventRestarted, actionRestart,
		"%s; restarted, as annotation servingcert.dev/on-rotate asks", s.note())
}

// restartHeld tells why. An event of the same action, reason and object is taken
// for the same again, whatever it says, so that the action is the hold.
func (w eventWriter) restartHeld(namespace string, h heldWorkload, uid types.UID) {
	regarding, related := h.stale.objects(namespace, uid)
	reason, then := EventRestartHeld, "it will be when that has changed"
	if h.hold.byHand() {
		reason, then = EventRestartNotPossible, h.stale.advice(namespace, h.hold)
	}
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, reason, string(h.hold),
		"%s; not restarted: %s; %s", h.stale.note(), shorten(h.why), then)
}

func (w eventWriter) restartStuck(namespace string, workload Workload, st standing) {
	why := "it does not get on"
	switch {
	case st.paused:
		why = "it was paused meanwhile"
	case st.progress.exceeded:
		why = "it exceeded its progress deadline"
	}
	w.recorder.Eventf(reference(namespace, workload, st.uid), nil, corev1.EventTypeWarning, EventRestartStuck, actionRestart,
		"restarted so that its pods serve the new certificate, and the rollout is not complete: %s (%s); no other workload of namespace %s is restarted before it is: kubectl rollout status %s/%s -n %s",
		why, st.progress.counts, namespace, strings.ToLower(workload.Kind), workload.Name, namespace)
}

// note says what was found.
func (s staleWorkload) note() string {
	pods, serve := "pod "+s.Pod, "serves"
	if s.Pods > 1 {
		pods, serve = fmt.Sprintf("%d pods (%s and others)", s.Pods, s.Pod), "serve"
	}
	return fmt.Sprintf("%s %s an older certificate than Secret %s holds since %s", pods, serve, s.Secret, s.Since.UTC().Format("2006-01-02 15:04:05 MST"))
}

// advice says what a person can do where nothing else will.
func (s staleWorkload) advice(namespace string, h hold) string {
	switch h {
	case holdGone, holdNotOwner, holdOnDelete, holdRestarted:
		return fmt.Sprintf("delete those pods, one after the other: kubectl delete pod %s -n %s", s.Pod, namespace)
	}
	return s.Workload.advice(namespace, s.Pod)
}

// objects returns what an event is about, and the Service beside it.
func (s staleWorkload) objects(namespace string, uid types.UID) (regarding, related runtime.Object) {
	service := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: s.Service, UID: s.ServiceUID}
	if s.Workload == (Workload{}) {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: s.Pod, UID: s.PodUID}, service
	}
	return reference(namespace, s.Workload, uid), service
}

// reference is one to a workload; uid is what the API server says of one that its
// pods know by name only.
func reference(namespace string, w Workload, uid types.UID) *corev1.ObjectReference {
	if w.UID != "" {
		uid = w.UID
	}
	return &corev1.ObjectReference{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: namespace, Name: w.Name, UID: uid}
}
