package api

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// RotateMode is the way in which the CA is rotated: the value of AnnotationRotateMode.
type RotateMode string

// The modes.
const (
	// RotateOverlap is the default: the new generation is trusted before it signs.
	RotateOverlap RotateMode = "overlap"
	// RotateForce is RotateOverlap even if clients that hold only the oldest unexpired
	// root will not be able to verify the served certificates.
	RotateForce RotateMode = "force"
	// RotateDistrust distrusts all earlier generations at once: for a stolen key.
	RotateDistrust RotateMode = "distrust-now"
	// RotateReplaceLost replaces a CA that is lost or corrupt.
	RotateReplaceLost RotateMode = "replace-lost"
)

// rotateModes returns all modes.
func rotateModes() []RotateMode {
	return []RotateMode{RotateOverlap, RotateForce, RotateDistrust, RotateReplaceLost}
}

// maxRotateReason bounds the reason of a rotation, in bytes: events repeat it.
const maxRotateReason = 200

// maxQuoted bounds how much of a value an error repeats, in characters.
const maxQuoted = 40

// RotateRequest requests one rotation of the CA. Equal requests are the same request,
// which is answered once. The zero RotateRequest requests nothing.
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
	case r.Reason == "": // a mode alone requests nothing
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

// Breaks reports whether clients and servers fail until they have loaded the new bundle
// and certificates.
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

// listed returns the values in a sentence.
func listed[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

// PromoteDespite returns the number of the generation to promote although some targets
// do not hold its root, from the annotations of ConfigMap CAStatusName; 0: none.
func PromoteDespite(annotations map[string]string) int {
	n, _ := strconv.Atoi(annotations[AnnotationPromoteDespite]) // 0 if it is not a number
	return n
}

// PromoteDespiteAnnotations returns the annotations of ConfigMap CAStatusName
// that let the generation sign although some targets do not hold its root.
func PromoteDespiteAnnotations(generation int) map[string]string {
	return map[string]string{AnnotationPromoteDespite: strconv.Itoa(generation)}
}

// RotateOutcome is the outcome of a request; zero if there is none yet.
type RotateOutcome struct {
	// Refused: the request is refused, for the reason in Why.
	Refused bool
	Why     string
	// Generation was made for the request. Signs: it signs now.
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
