package controller

import (
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer"
)

// actionIssue is the action of every event.
const actionIssue = "Issue"

func emit(r events.EventRecorder, e signer.Event) {
	r.Eventf(e.Service, nil, e.Type, e.Reason, actionIssue, "%s", api.EventNote(e.Note))
}
