package app

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// States of the request.
const (
	requestNotWritten = "notWritten" // only a preview, or not confirmed
	requestWritten    = "written"
	requestOpen       = "open"     // made before and not complete
	requestAnswered   = "answered" // made before and complete: nothing to do
)

// rotation is the result of rotate-ca.
type rotation struct {
	header
	// Mode and Reason are the request's; absent with --proceed, which sets Generation.
	Mode       string `json:"mode,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Request    string `json:"request"`
	// Breaks is what fails; absent if nothing does.
	Breaks *status.Breaks `json:"breaks,omitempty"`
	// CA is the last status that was seen.
	CA status.CAStatus `json:"ca"`
	// Served lists what serves the new certificates; absent if that was not waited for.
	Served *status.Served `json:"served,omitempty"`
}

func rotationOf(f *rotateFlags) rotation {
	r := rotation{header: headerOf("Rotation"), Generation: f.proceed}
	if f.proceed == 0 {
		r.Mode, r.Reason = string(f.request().Mode), f.request().Reason
	}
	return r
}

// decided records the decision about a request.
func (r *rotation) decided(cm *corev1.ConfigMap, decision status.RequestDecision) {
	r.CA = status.ParseCA(cm.Data)
	switch {
	case decision.Write:
		r.Request = requestNotWritten
	case decision.Over:
		r.Request = requestAnswered
	default:
		r.Request = requestOpen
	}
}

// followed records the outcome of following the rotation, and returns the error.
func (r *rotation) followed(outcome follow.Outcome, err error) error {
	if outcome.CA != nil {
		r.CA = *outcome.CA
	}
	r.Served = outcome.Served
	return err
}

// write writes the result as data, if there was a decision about the request.
func (r *rotation) write(w io.Writer, output string) error {
	switch {
	case r.Request == "":
		return nil
	case isData(output):
		return writeData(w, output, r)
	case output == "name" && r.Request != requestNotWritten:
		_, err := fmt.Fprintf(w, "configmap/%s\n", api.CAStatusName)
		return err
	}
	return nil
}
