package controller

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/rotator/failing"
)

// The reasons of events are those of condition PodsHealthy. They regard the workload (or the bare
// pod) and the Service.

type eventWriter struct {
	recorder events.EventRecorder
}

// report reports a failure. Events with equal action, reason and object are merged, whatever their
// note: so the action distinguishes templates and containers.
func (w eventWriter) report(namespace string, f failing.Finding) {
	regarding := f.Workload.Reference(namespace, "")
	if f.Workload.Bare() {
		regarding = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: f.Pod, UID: f.Key.Pod}
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(f.Workload.String() + "/" + f.Revision + "/" + f.Container))
	action := "Start-" + strconv.FormatUint(uint64(hash.Sum32()), 16)
	if f.For == nil {
		w.recorder.Eventf(regarding, nil, corev1.EventTypeWarning, f.Reason, action, "%s", f.Text)
		return
	}
	service := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: f.For.Name, UID: f.For.UID}
	w.recorder.Eventf(regarding, service, corev1.EventTypeWarning, f.Reason, action, "%s", f.Text)
	w.recorder.Eventf(service, regarding, corev1.EventTypeWarning, f.Reason, action, "%s", f.Text)
}
