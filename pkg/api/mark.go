package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A mark is a fact that a process adds to a Service in its caches, which must remain a
// corev1.Service for the readers of controller-runtime. It is stored as an annotation whose key
// is not a qualified name, so the API server accepts it on no object. Only this file reads and
// writes marks.
type mark string

const (
	// markTranslated holds the key of the annotation that Translate replaced.
	markTranslated mark = "translated from"
	// markTooLarge holds the error of CheckSize of a stripped Service.
	markTooLarge mark = "too large"
)

func (m mark) of(svc *corev1.Service) (value string, ok bool) {
	value, ok = svc.Annotations[string(m)]
	return value, ok
}

func (m mark) set(svc *corev1.Service, value string) {
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, string(m), value)
}
