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
	requestNotWritten = "notWritten" // a preview, or not confirmed
	requestWritten    = "written"
	requestOpen       = "open"     // an earlier request, not finished
	requestAnswered   = "answered" // an earlier request, finished
)

// rotation is the result of rotate-ca.
type rotation struct {
	header
	// Mode and Reason describe the request. With --proceed, Generation is set instead.
	Mode       string `json:"mode,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Request    string `json:"request"`
	// Breaks lists the servers and clients that fail; absent if none does.
	Breaks *status.Breaks `json:"breaks,omitempty"`
	// CA is the last status that was read.
	CA status.CA `json:"ca"`
	// Served is the uptake of the new certificates; absent if that was not followed.
	Served *status.Served `json:"served,omitempty"`

	configMap string // of the CA
}

func rotationOf(f *rotateFlags) rotation {
	r := rotation{header: headerOf("Rotation"), Generation: f.proceed, configMap: f.statusName()}
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

// followed records the outcome of a followed rotation, and returns its error.
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
		_, err := fmt.Fprintf(w, "configmap/%s\n", r.configMap)
		return err
	}
	return nil
}

// statusName returns the ConfigMap of the CA.
func (f *rotateFlags) statusName() string {
	if f.clients {
		return api.ClientCAStatusName
	}
	return api.CAStatusName
}
