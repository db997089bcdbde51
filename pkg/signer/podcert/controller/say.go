package controller

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

// say emits an event on the pod of a request that has no certificate, unless it was the
// last thing said of it.
func (c *Controller) say(r *podcert.Request, pod *corev1.Pod, reason, message string) {
	if !c.said.First(r.UID, reason+" "+message) {
		return
	}
	c.events.Eventf(pod, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", signer.EventNote(message))
}
