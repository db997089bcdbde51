package api

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/formats"
)

// PodKind is the kind of a pod without a controller where other pods are named by their workload.
const PodKind = "Pod"

// OnRotate is what the rotator may do about a pod that still serves an old
// certificate.
type OnRotate string

// The values of AnnotationOnRotate.
const (
	OnRotateReload  OnRotate = "reload"
	OnRotateRestart OnRotate = "restart"
	OnRotateNone    OnRotate = "none"
)

// PodRequest is what a pod or a pod template requests from the webhook and the rotator.
type PodRequest struct {
	// OptedOut is true if the pod must not be injected.
	OptedOut bool
	// SecretName is the Secret in the pod's annotation; empty if the Services decide.
	SecretName string
	// Settings are those of the pod itself.
	Settings
	OnRotate OnRotate
	Formats  formats.Set // additional files
}

// ParsePod returns what the labels and annotations of a pod request. Every error is a
// *FieldError. An unknown value is an error, not a default: a pod that silently serves
// plaintext is worse than a pod that is refused.
func ParsePod(meta *metav1.ObjectMeta) (PodRequest, error) {
	r, errs := parsePod(meta, true)
	if len(errs) > 0 {
		return PodRequest{}, errs[0]
	}
	return r, nil
}

// PodProblems returns everything that is wrong with the labels and annotations of a pod,
// not only the first problem as ParsePod does. Every error is a *FieldError.
func PodProblems(meta *metav1.ObjectMeta) []error {
	_, errs := parsePod(meta, false)
	return errs
}

// parsePod returns what a pod requests, and what is wrong with it: only the first problem, or
// all of them.
func parsePod(meta *metav1.ObjectMeta, first bool) (r PodRequest, errs []error) {
	r.OnRotate = OnRotateReload
	if err := r.parseLabel(meta.Labels); err != nil {
		if errs = append(errs, err); first {
			return r, errs
		}
	}
	if r.OptedOut {
		return r, nil // the annotations have no effect
	}
	for _, p := range podAnnotations {
		value, ok := meta.Annotations[p.key]
		if !ok {
			continue
		}
		if detail := p.parse(&r, value); detail != "" {
			if errs = append(errs, &FieldError{p.key, value, detail}); first {
				return r, errs
			}
		}
	}
	if err := r.Settings.check(); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return r, errs
}

func (r *PodRequest) parseLabel(labels map[string]string) error {
	switch value, ok := labels[LabelInject]; {
	case !ok, value == InjectEnabled:
	case value == InjectDisabled:
		r.OptedOut = true
	default:
		return &FieldError{"label " + LabelInject, value, `must be "` + InjectDisabled + `" to opt the pod out, or "` + InjectEnabled + `"`}
	}
	return nil
}

// podAnnotation parses one annotation of a pod. parse returns what is wrong and what is
// allowed, or "".
type podAnnotation struct {
	key   string
	parse func(r *PodRequest, value string) (detail string)
}

// podAnnotations are the annotations that a pod may have, in the order in which errors
// are reported.
var podAnnotations = slices.Concat(
	[]podAnnotation{
		{AnnotationSecretName, func(r *PodRequest, v string) string {
			r.SecretName = v
			return checkShape(AnnotationSecretName, v)
		}},
	},
	ofPods(settings),
	[]podAnnotation{
		{AnnotationOnRotate, func(r *PodRequest, v string) string {
			r.OnRotate = OnRotate(v)
			return checkShape(AnnotationOnRotate, v)
		}},
	},
	podFormats(),
)

func ofPods(settings []setting) []podAnnotation {
	out := make([]podAnnotation, len(settings))
	for i, s := range settings {
		out[i] = podAnnotation{s.key, func(r *PodRequest, v string) string { return s.parse(&r.Settings, v) }}
	}
	return out
}

// UnknownPodAnnotations returns the keys with our prefix that have no meaning on a pod,
// sorted. Most of them are misspelled.
func UnknownPodAnnotations(annotations map[string]string) []string { return OnPod.Unknown(annotations) }

func oneOf[T ~string](v T, allowed ...T) string {
	if slices.Contains(allowed, v) {
		return ""
	}
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = `"` + string(a) + `"`
	}
	last := len(quoted) - 1
	return "must be " + strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
