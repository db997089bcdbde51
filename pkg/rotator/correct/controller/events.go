package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/correct"
)

// The reasons of events are those of condition Flags: on the workload (on the pod, for
// bare pods) and on the Service.

type eventWriter struct {
	recorder events.EventRecorder
}

// found tells what was found out about an attempt. An event of the same action, reason
// and object is taken for the same again, whatever its note says: therefore the action
// names the attempt.
func (w eventWriter) found(namespace string, f correct.Finding) {
	kind, reason := corev1.EventTypeWarning, api.FlagsWithheld
	switch f.Verdict {
	case state.VerdictSuspected:
		reason = api.FlagsSuspected
	case state.VerdictCleared:
		kind, reason = corev1.EventTypeNormal, api.FlagsKept
	}
	regarding := f.Workload.Reference(namespace, "")
	if f.Workload.Bare() {
		regarding = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: f.Pod, UID: f.PodUID}
	}
	action := "Correct-" + f.Attempt
	if f.Service == nil {
		w.recorder.Eventf(regarding, nil, kind, reason, action, "%s", note(f))
		return
	}
	service := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: f.Service.Name, UID: f.Service.UID}
	w.recorder.Eventf(regarding, service, kind, reason, action, "%s", note(f))
	w.recorder.Eventf(service, regarding, kind, reason, action, "%s", note(f))
}

// note says what was found, and what follows.
func note(f correct.Finding) string {
	if f.Evidence == correct.EvidencePlaintext {
		return fmt.Sprintf("container %s of pod %s %s and fails its probes: it ignores unrequested flags; %s", f.Container, f.Pod, f.Line, then(f))
	}
	text := fmt.Sprintf("container %s of pod %s exited with code %d", f.Container, f.Pod, f.ExitCode)
	if f.Verdict == state.VerdictCleared {
		return text + " without the unrequested flags, too: new pods get them again"
	}
	text += " when it was given unrequested flags"
	switch f.Evidence {
	case correct.EvidenceSilent:
		text += ", and said nothing"
	case correct.EvidenceRunsWithout:
		text += ", and another pod serves without them"
	default:
		text += ", and said " + fmt.Sprintf("%q", f.Line)
	}
	return text + "; " + then(f)
}

// then says what follows.
func then(f correct.Finding) string {
	mode := "annotate the pod template " + api.AnnotationMode + ": "
	switch {
	case f.Verdict == state.VerdictSuspected:
		return "nothing is done about it: " + mode + string(api.ModeEnv) + " if they are wrong"
	case f.Workload.Bare():
		return "recreate it: a new pod does not get them"
	}
	return "its pods are made anew without them: " + mode + string(api.ModeArgs) + " if they are right"
}
