package app

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// What has become of the request.
const (
	requestNotWritten = "notWritten" // it is what would be requested: it was not confirmed
	requestWritten    = "written"
	requestOpen       = "open"     // it was made before, and is not finished yet
	requestAnswered   = "answered" // it was made before, and is finished: there is nothing to do
)

// rotation is what rotate-ca has done, or would do.
type rotation struct {
	header
	// Mode and Reason are of the request; absent with --proceed, which names a Generation.
	Mode       string `json:"mode,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Request    string `json:"request"`
	// Breaks is who fails; absent if nobody does.
	Breaks *judge.Breaks `json:"breaks,omitempty"`
	// CA is the status that was seen last.
	CA judge.CAStatus `json:"ca"`
	// Served is who serves the new certificates; absent if that was not waited for.
	Served *judge.Served `json:"served,omitempty"`
}

func rotationOf(f *rotateFlags) rotation {
	r := rotation{header: headerOf("Rotation"), Generation: f.proceed}
	if f.proceed == 0 {
		r.Mode, r.Reason = string(f.request().Mode), f.request().Reason
	}
	return r
}

// decided keeps what a request comes to by the status.
func (r *rotation) decided(cm *corev1.ConfigMap, decision judge.RequestDecision) {
	r.CA = judge.ParseCA(cm.Data)
	switch {
	case decision.Write:
		r.Request = requestNotWritten
	case decision.Over:
		r.Request = requestAnswered
	default:
		r.Request = requestOpen
	}
}

// followed keeps the outcome of following the rotation, and returns the error.
func (r *rotation) followed(outcome follow.Outcome, err error) error {
	if outcome.CA != nil {
		r.CA = *outcome.CA
	}
	r.Served = outcome.Served
	return err
}

// write writes it as data, if it came to a decision about the request.
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
