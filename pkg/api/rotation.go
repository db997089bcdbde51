package api

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// RotateMode is how a rotation of the CA goes: the value of AnnotationRotateMode
// beside AnnotationRotate.
type RotateMode string

// The modes.
const (
	// RotateOverlap is the default: the new generation is trusted before it signs.
	RotateOverlap RotateMode = "overlap"
	// RotateForce is RotateOverlap even if clients that hold only the oldest root
	// that has not expired will not be able to verify what is served.
	RotateForce RotateMode = "force"
	// RotateDistrust distrusts all earlier generations at once: for a stolen key.
	RotateDistrust RotateMode = "distrust-now"
	// RotateReplaceLost makes a new CA in place of one that is lost or corrupt.
	RotateReplaceLost RotateMode = "replace-lost"
)

// rotateModes returns all.
func rotateModes() []RotateMode {
	return []RotateMode{RotateOverlap, RotateForce, RotateDistrust, RotateReplaceLost}
}

// maxRotateReason bounds the reason of a rotation, in bytes: it is repeated in
// events.
const maxRotateReason = 200

// maxQuoted bounds how much of a value an error repeats, in characters.
const maxQuoted = 40

// RotateRequest asks for one rotation of the CA. Equal requests are the same
// request: it is answered once. The zero RotateRequest asks for nothing.
type RotateRequest struct {
	Mode   RotateMode
	Reason string
}

// ParseRotateRequest reads the request from the annotations of ConfigMap
// CAStatusName. The error names the annotation, its value, and what is allowed.
func ParseRotateRequest(annotations map[string]string) (RotateRequest, error) {
	r := RotateRequest{RotateMode(annotations[AnnotationRotateMode]), annotations[AnnotationRotate]}
	if r.Mode == "" {
		r.Mode = RotateOverlap
	}
	switch {
	case r.Reason == "": // a mode alone asks for nothing
		return RotateRequest{}, nil
	case !slices.Contains(rotateModes(), r.Mode):
		return RotateRequest{}, fmt.Errorf("%s: %q: must be %s", AnnotationRotateMode, Shorten(string(r.Mode), maxQuoted), listed(rotateModes()))
	case len(r.Reason) > maxRotateReason:
		return RotateRequest{}, fmt.Errorf("%s: %q: must not be longer than %d bytes", AnnotationRotate, Shorten(r.Reason, maxQuoted), maxRotateReason)
	case strings.ContainsFunc(r.Reason, func(c rune) bool { return c < ' ' }):
		return RotateRequest{}, fmt.Errorf("%s: %q: must be one line of text", AnnotationRotate, r.Reason)
	}
	return r, nil
}

// Annotations returns the annotations of ConfigMap CAStatusName that make the
// request.
func (r RotateRequest) Annotations() map[string]string {
	return map[string]string{AnnotationRotate: r.Reason, AnnotationRotateMode: string(r.Mode)}
}

// String returns the request as MODE:REASON, the value of CARotation, and "" for
// the zero RotateRequest.
func (r RotateRequest) String() string {
	if r == (RotateRequest{}) {
		return ""
	}
	return string(r.Mode) + ":" + r.Reason
}

// Breaks reports whether clients and servers fail until they have loaded what
// follows from the rotation.
func (r RotateRequest) Breaks() bool {
	return r.Mode == RotateDistrust || r.Mode == RotateReplaceLost
}

// parseRotation reads what [RotateRequest.String] returns.
func parseRotation(text string) RotateRequest {
	mode, reason, ok := strings.Cut(text, ":")
	if !ok {
		return RotateRequest{}
	}
	return RotateRequest{RotateMode(mode), reason}
}

// listed returns the modes in a sentence.
func listed(modes []RotateMode) string {
	names := make([]string, len(modes))
	for i, mode := range modes {
		names[i] = string(mode)
	}
	return strings.Join(names, ", ")
}

// PromoteDespite returns the number of the generation that, by the annotations of
// ConfigMap CAStatusName, is to sign although some targets do not hold its root; 0:
// none.
func PromoteDespite(annotations map[string]string) int {
	n, _ := strconv.Atoi(annotations[AnnotationPromoteDespite]) // what is not a number names no generation
	return n
}

// PromoteDespiteAnnotations returns the annotations of ConfigMap CAStatusName
// that let the generation sign although some targets do not hold its root.
func PromoteDespiteAnnotations(generation int) map[string]string {
	return map[string]string{AnnotationPromoteDespite: strconv.Itoa(generation)}
}

// RotateOutcome is what became of a request. The zero RotateOutcome says nothing.
type RotateOutcome struct {
	// Refused: nothing is done about the request, and Why says the reason.
	Refused bool
	Why     string
	// Generation was made for the request, and Signs now, or does not yet.
	Generation int
	Signs      bool
}

const refusedPrefix = "refused: "

// String returns the value of CARotationOutcome, for people as well.
func (o RotateOutcome) String() string {
	switch {
	case o.Refused:
		return refusedPrefix + o.Why
	case o.Generation == 0:
		return ""
	case o.Signs:
		return fmt.Sprintf("generation %d was made and signs", o.Generation)
	}
	return fmt.Sprintf("generation %d was made and does not sign yet", o.Generation)
}

var madeGeneration = regexp.MustCompile(`^generation ([0-9]+) was made and (signs|does not sign yet)$`)

// parseRotateOutcome reads what [RotateOutcome.String] returns.
func parseRotateOutcome(text string) RotateOutcome {
	if why, ok := strings.CutPrefix(text, refusedPrefix); ok {
		return RotateOutcome{Refused: true, Why: why}
	}
	made := madeGeneration.FindStringSubmatch(text)
	if made == nil {
		return RotateOutcome{}
	}
	return RotateOutcome{Generation: parseGeneration(made[1]), Signs: made[2] == "signs"}
}
