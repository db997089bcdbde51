package api

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/formats"
)

// FormatAnnotation returns the annotation of a Service or a pod that asks for the format.
func FormatAnnotation(f *formats.Format) string { return Domain + "/" + f.Annotation }

// FormatAnnotations returns those of all formats, in the order of the list.
func FormatAnnotations() []string {
	var keys []string
	for f := range formats.All().Formats() {
		keys = append(keys, FormatAnnotation(f))
	}
	return keys
}

// asksForFormat reports whether the annotation is one of those. Caches ask it of every annotation.
func asksForFormat(key string) bool {
	name, ok := strings.CutPrefix(key, Domain+"/")
	for f := range formats.All().Formats() {
		if ok && name == f.Annotation {
			return true
		}
	}
	return false
}

// FormatsOf returns the formats that the Service asks for in its Secret, and those of which it
// says what is not allowed, so that nobody knows whether pods need them; Parse refuses it.
func FormatsOf(svc *corev1.Service) (asked, mistaken formats.Set) {
	for f := range formats.All().Formats() {
		switch wanted, err := wantsFormat(svc, f); {
		case err != nil:
			mistaken |= formats.Of(f)
		case wanted:
			asked |= formats.Of(f)
		}
	}
	return asked, mistaken
}

// wantsFormat reports whether the Service asks for the format: false if it has no such
// annotation, and a *FieldError if its value is wrong.
func wantsFormat(svc *corev1.Service, f *formats.Format) (bool, error) {
	key := FormatAnnotation(f)
	value, ok := svc.Annotations[key]
	if !ok {
		return false, nil
	}
	wanted, err := parseBool(value)
	if err != nil {
		return false, &FieldError{key, value, err.Error()}
	}
	return wanted, nil
}

// requestFormats returns a step of Parse for each format.
func requestFormats() []requestStep {
	var steps []requestStep
	for f := range formats.All().Formats() {
		steps = append(steps, func(r *Request, svc *corev1.Service, _ Limits) error {
			wanted, err := wantsFormat(svc, f)
			if wanted {
				r.Formats |= formats.Of(f)
			}
			return err
		})
	}
	return steps
}

// podFormats returns the annotations of pods that ask for a format.
func podFormats() []podAnnotation {
	var annotations []podAnnotation
	for f := range formats.All().Formats() {
		annotations = append(annotations, podAnnotation{FormatAnnotation(f), func(r *PodRequest, v string) string {
			var wanted bool
			detail := setBool(&wanted, v)
			if wanted {
				r.Formats |= formats.Of(f)
			}
			return detail
		}})
	}
	return annotations
}
