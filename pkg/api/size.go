package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ReasonTooLarge of condition Ready: the Service exceeds MaxSelector or MaxPorts.
const ReasonTooLarge = "TooLarge"

// TooLargeError reports that a Service exceeds MaxSelector or MaxPorts.
type TooLargeError struct{ FieldError }

// Unwrap returns the FieldError.
func (e *TooLargeError) Unwrap() error { return &e.FieldError }

// Reason returns ReasonTooLarge.
func (e *TooLargeError) Reason() string { return ReasonTooLarge }

// CheckSize returns a *TooLargeError if the Service exceeds MaxSelector or MaxPorts, or nil. Such a
// Service selects no pods and gets no new certificate; an existing one is kept.
func CheckSize(svc *corev1.Service) error {
	if stored, ok := markTooLarge.of(svc); ok {
		field, rest, _ := strings.Cut(stored, "\n")
		value, detail, _ := strings.Cut(rest, "\n")
		return &TooLargeError{FieldError{field, value, detail}}
	}
	if n := len(svc.Spec.Selector); n > MaxSelector {
		return &TooLargeError{FieldError{"spec.selector", fmt.Sprintf("%d labels", n), fmt.Sprintf("must be at most %d", MaxSelector)}}
	}
	if n := len(svc.Spec.Ports); n > MaxPorts {
		return &TooLargeError{FieldError{"spec.ports", fmt.Sprintf("%d ports", n), fmt.Sprintf("must be at most %d", MaxPorts)}}
	}
	return nil
}

// Selects reports whether the Service selects the pod. Unlike an empty label selector, a
// Service without a selector selects nothing. A Service that is too large ([CheckSize])
// selects nothing either.
func Selects(svc *corev1.Service, pod *corev1.Pod) bool {
	if CheckSize(svc) != nil {
		return false
	}
	for key, want := range svc.Spec.Selector {
		if value, ok := pod.Labels[key]; !ok || value != want {
			return false
		}
	}
	return len(svc.Spec.Selector) > 0
}

// recordTooLarge stores the error of CheckSize, which does not change, on a stripped Service.
func recordTooLarge(svc *corev1.Service, err error) {
	e, ok := err.(*TooLargeError) //nolint:errorlint // CheckSize returns no other
	if ok {
		markTooLarge.set(svc, strings.Join([]string{e.Field, e.Value, e.Detail}, "\n"))
	}
}
