package controller

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/signer/podcert"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

// maxEventNote is the API's bound on an event's note, in bytes: it refuses the
// event otherwise.
const maxEventNote = 1024

// say emits an event on the pod of a request that has no certificate, unless it was the
// last thing said of it.
func (c *Controller) say(r *podcert.Request, pod *corev1.Pod, reason, message string) {
	if !c.said.first(r.UID, reason+" "+message) {
		return
	}
	if len(message) > maxEventNote {
		message = strings.ToValidUTF8(message[:maxEventNote-len("…")], "") + "…"
	}
	c.events.Eventf(pod, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", message)
}

// said remembers what was said last of each request that has no answer.
type said struct {
	mu   sync.Mutex
	last map[types.UID]string
}

func newSaid() *said { return &said{last: map[types.UID]string{}} }

// first reports whether something else was said last, and remembers it.
func (s *said) first(request types.UID, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[request] == what {
		return false
	}
	s.last[request] = what
	return true
}

func (s *said) forget(request types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, request)
}
