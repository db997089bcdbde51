package ca

import "github.com/servingcert/servingcert/pkg/api"

// Rotation is a request that a person made with api.AnnotationRotate, and what
// became of it, as the CA Secret holds it.
type Rotation struct {
	Mode       api.RotateMode `json:"mode"`
	Reason     string         `json:"reason"`
	Generation int            `json:"generation,omitempty"` // that was made for it
	Refused    string         `json:"refused,omitempty"`    // why none was
}

// made returns the request, for which the generation was made.
func made(r api.RotateRequest, generation int) Rotation {
	return Rotation{Mode: r.Mode, Reason: r.Reason, Generation: generation}
}

// refused returns the request, for which no generation was made, and why.
func refused(r api.RotateRequest, why string) Rotation {
	return Rotation{Mode: r.Mode, Reason: r.Reason, Refused: why}
}

// request returns the request that was answered.
func (r Rotation) request() api.RotateRequest {
	return api.RotateRequest{Mode: r.Mode, Reason: r.Reason}
}

// outcome returns what became of the request, where the numbered generation signs.
func (r Rotation) outcome(signing int) api.RotateOutcome {
	if r.Refused != "" {
		return api.RotateOutcome{Refused: true, Why: r.Refused}
	}
	return api.RotateOutcome{Generation: r.Generation, Signs: r.Generation <= signing}
}
