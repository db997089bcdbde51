package ca

import "github.com/servingcert/servingcert/pkg/api"

// Rotation is a request that a person made with api.AnnotationRotate, and its
// outcome, as stored in the CA Secret.
type Rotation struct {
	Mode       api.RotateMode `json:"mode"`
	Reason     string         `json:"reason"`
	Generation int            `json:"generation,omitempty"` // the generation made for it
	Refused    string         `json:"refused,omitempty"`    // why none was made
}

// made returns the request as answered with the generation.
func made(r api.RotateRequest, generation int) Rotation {
	return Rotation{Mode: r.Mode, Reason: r.Reason, Generation: generation}
}

// refused returns the request as refused for the given reason.
func refused(r api.RotateRequest, why string) Rotation {
	return Rotation{Mode: r.Mode, Reason: r.Reason, Refused: why}
}

// request returns the request that was answered.
func (r Rotation) request() api.RotateRequest {
	return api.RotateRequest{Mode: r.Mode, Reason: r.Reason}
}

// outcome returns the outcome of the request; signing is the generation that signs.
func (r Rotation) outcome(signing int) api.RotateOutcome {
	if r.Refused != "" {
		return api.RotateOutcome{Refused: true, Why: r.Refused}
	}
	return api.RotateOutcome{Generation: r.Generation, Signs: r.Generation <= signing}
}
