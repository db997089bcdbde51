package api

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/formats"
)

// PodKind is the Kind by which a pod without a controller is named where others are named by their workload.
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

// PodRequest is what a pod or a pod template asks of the webhook and of the rotator.
type PodRequest struct {
	// OptedOut is true if the pod must not be injected.
	OptedOut bool
	// SecretName is the Secret that the pod names itself; empty if the Services
	// decide.
	SecretName string
	// Settings are those that the pod says itself.
	Settings
	OnRotate OnRotate
	Formats  formats.Set // that the pod asks for beside the other files
}

// ParsePod returns what the labels and annotations of a pod ask for. Every error is a
// *FieldError. A value that is not understood is an error, not a default: a pod that
// silently serves plaintext is worse than one that is refused.
func ParsePod(meta *metav1.ObjectMeta) (PodRequest, error) {
	r, errs := parsePod(meta, true)
	if len(errs) > 0 {
		return PodRequest{}, errs[0]
	}
	return r, nil
}

// PodProblems returns everything that is wrong with the labels and annotations of a pod,
// where ParsePod returns the first of it. Every error is a *FieldError.
func PodProblems(meta *metav1.ObjectMeta) []error {
	_, errs := parsePod(meta, false)
	return errs
}

// parsePod returns what a pod asks for, and what is wrong with it: the first problem alone,
// or all of them.
func parsePod(meta *metav1.ObjectMeta, first bool) (r PodRequest, errs []error) {
	r.OnRotate = OnRotateReload
	if err := r.parseLabel(meta.Labels); err != nil {
		if errs = append(errs, err); first {
			return r, errs
		}
	}
	if r.OptedOut {
		return r, nil // whatever else it says
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
		{AnnotationSecretName, func(r *PodRequest, v string) string { r.SecretName = v; return checkSecretName(v) }},
	},
	ofPods(settings),
	[]podAnnotation{
		{AnnotationOnRotate, func(r *PodRequest, v string) string {
			r.OnRotate = OnRotate(v)
			return oneOf(r.OnRotate, OnRotateReload, OnRotateRestart, OnRotateNone)
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

// UnknownPodAnnotations returns the keys with our prefix that mean nothing on a pod,
// sorted. Most often they are misspelled.
func UnknownPodAnnotations(annotations map[string]string) []string { return OnPod.Unknown(annotations) }

func checkSecretName(v string) string {
	if errs := validation.IsDNS1123Subdomain(v); len(errs) > 0 {
		return "not a valid Secret name: " + strings.Join(errs, "; ")
	}
	return ""
}

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
