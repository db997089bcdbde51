package ca

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// maxReason bounds the reason of a rotation: it is repeated in events.
const maxReason = 200

// Request is what a person asks with annotations of the status ConfigMap.
type Request struct {
	Mode   api.RotateMode
	Reason string
	// Wrong is why what they ask is no request, or nil.
	Wrong error
	// PromoteDespite is the number of a generation that is to sign although some
	// targets refuse its root; 0: of none.
	PromoteDespite int
}

// ParseRequest reads the annotations of the status ConfigMap. The zero Request
// asks for nothing.
func ParseRequest(annotations map[string]string) Request {
	r := Request{Mode: api.RotateMode(annotations[api.AnnotationRotateMode]), Reason: annotations[api.AnnotationRotate]}
	r.PromoteDespite, _ = strconv.Atoi(annotations[api.AnnotationPromoteDespite]) // what is no number names no generation
	if r.Mode == "" {
		r.Mode = api.RotateOverlap
	}
	switch {
	case r.Reason == "":
		r.Mode = ""
	case !slices.Contains(api.RotateModes(), r.Mode):
		r.Wrong = fmt.Errorf("%s: %q: must be %s", api.AnnotationRotateMode, shown(string(r.Mode)), modes())
	case len(r.Reason) > maxReason:
		r.Wrong = fmt.Errorf("%s: %q: longer than %d bytes", api.AnnotationRotate, shown(r.Reason), maxReason)
	case strings.ContainsFunc(r.Reason, func(c rune) bool { return c < ' ' }):
		r.Wrong = fmt.Errorf("%s: %q: must be one line of text", api.AnnotationRotate, r.Reason)
	}
	return r
}

func shown(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func modes() string {
	var all []string
	for _, m := range api.RotateModes() {
		all = append(all, string(m))
	}
	return strings.Join(all, ", ")
}

// open reports whether the request asks for something else than what was answered
// last, in the form of api.CARotation: the same reason in the same mode is the
// same request.
func (r Request) open(answered string) bool {
	return r.Reason != "" && r.Wrong == nil && Rotation{Mode: r.Mode, Reason: r.Reason}.String() != answered
}

// String is the form of api.CARotation.
func (r Rotation) String() string { return string(r.Mode) + ":" + r.Reason }

// outcome says what became of the request.
func (r Rotation) outcome(s State) string {
	switch {
	case r.Refused != "":
		return "refused: " + r.Refused
	case r.Generation > s.Signing:
		return fmt.Sprintf("generation %d was made and does not sign yet", r.Generation)
	}
	return fmt.Sprintf("generation %d was made and signs", r.Generation)
}
