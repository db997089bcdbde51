package controller

import (
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/signer/csr"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

// maxEventNote is the API's bound on an event's note, in bytes: it refuses the
// event otherwise.
const maxEventNote = 1024

// say emits an event on a request that has no certificate, unless it was the last thing
// said of it. Events on objects without a namespace are in namespace default.
func (c *Controller) say(r *csr.Request, reason, message string) {
	if !c.said.first(r.UID, reason+" "+message) {
		return
	}
	if len(message) > maxEventNote {
		message = strings.ToValidUTF8(message[:maxEventNote-len("…")], "") + "…"
	}
	regarding := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion},
	}
	c.events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, actionIssue, "%s", message)
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
