package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// EventServesOld is the reason of an event on a workload with stale pods that may not be restarted,
// or for which a restart would not help.
const EventServesOld = "ServesOldCertificate"

// The actions of events. Events with equal action, reason and object are merged, whatever their
// note.
const (
	actionReload = "Reload"
	actionMount  = "Mount"
)

type eventWriter struct {
	recorder events.EventRecorder
}

// servesOld reports stale pods, unless they are restarted or have opted out of reports.
func (w eventWriter) servesOld(namespace string, s serving.StaleWorkload) {
	if s.OnRotate == api.OnRotateNone || s.OnRotate == api.OnRotateRestart && !s.ReadsOtherFiles {
		return
	}
	regarding, related := s.Objects(namespace, s.Workload.UID)
	action := actionReload
	todo := fmt.Sprintf("it does not reload its files: %s; annotate its pod template %s: restart to have that done automatically", s.Workload.Advice(namespace, s.Pod), api.AnnotationOnRotate)
	switch {
	case s.Distrusted:
		todo = fmt.Sprintf("no kubelet replaces it before it is due, and only a new pod gets another: %s; annotate its pod template %s: restart to have that done automatically", s.Workload.Advice(namespace, s.Pod), api.AnnotationOnRotate)
		if s.Workload.Bare() {
			todo = "no kubelet replaces it before it is due, and only a new pod gets another: recreate it"
		}
	case s.ReadsOtherFiles:
		action = actionMount
		todo = "it is newer than that, so it reads the certificate from other files than the volume's, or through a subPath, which never changes"
	case s.Workload.Node():
		todo = s.Workload.Advice(namespace, s.Pod)
	case s.Workload.Bare():
		todo = "it does not reload its files: recreate it"
	}
	w.recorder.Eventf(regarding, related, corev1.EventTypeWarning, EventServesOld, action, "%s; %s", s.Note(), todo)
}
