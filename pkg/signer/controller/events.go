package controller

import (
	"strings"

	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/signer"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

// maxEventNote is the API's bound on an event's note, in bytes: it refuses the
// event otherwise.
const maxEventNote = 1024

func emit(r events.EventRecorder, e signer.Event) {
	note := e.Note
	if len(note) > maxEventNote {
		note = strings.ToValidUTF8(note[:maxEventNote-len("…")], "") + "…"
	}
	r.Eventf(e.Service, nil, e.Type, e.Reason, actionIssue, "%s", note)
}
