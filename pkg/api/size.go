package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonTooLarge of condition Ready: the Service exceeds a bound of what is remembered of one.
const ReasonTooLarge = "TooLarge"

// TooLargeError reports that a Service exceeds a bound of what is remembered of one.
type TooLargeError struct{ FieldError }

// Unwrap returns the FieldError.
func (e *TooLargeError) Unwrap() error { return &e.FieldError }

// Reason returns ReasonTooLarge.
func (e *TooLargeError) Reason() string { return ReasonTooLarge }

// TooLarge is the key under which a Service of a cache says which bound it exceeds: field, value
// and detail of the error, each on a line. Like TranslatedFrom, it is a key that the API server
// accepts on no object.
const TooLarge = "too large"

// CheckSize returns a *TooLargeError if the Service exceeds a bound of what is remembered of one,
// or nil. Such a Service selects no pod and is issued no
// certificate; what it has goes on.
func CheckSize(svc *corev1.Service) error {
	if said, ok := svc.Annotations[TooLarge]; ok {
		field, rest, _ := strings.Cut(said, "\n")
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

// markTooLarge has a stripped Service say what CheckSize returned of it.
func markTooLarge(svc *corev1.Service, err error) {
	e, ok := err.(*TooLargeError) //nolint:errorlint // CheckSize returns no other
	if ok {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, TooLarge, e.Field+"\n"+e.Value+"\n"+e.Detail)
	}
}
