package api

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Translate returns the Service with AnnotationSecretName in place of OpenShift's
// annotation: a copy, or svc itself if there is nothing to translate. Only a process
// with --openshift-compat reads Services through it, so other processes ignore
// OpenShift's annotations. AnnotationSecretName takes precedence
// over OpenShift's annotations, and beta over alpha. Like service-ca, Translate
// ignores an empty name.
func Translate(svc *corev1.Service) *corev1.Service {
	from := ""
	for _, key := range openShiftSecretNames {
		if from == "" && svc.Annotations[key] != "" {
			from = key
		}
	}
	if _, ours := svc.Annotations[AnnotationSecretName]; ours || from == "" {
		return svc
	}
	out := *svc
	out.Annotations = maps.Clone(svc.Annotations)
	out.Annotations[AnnotationSecretName] = svc.Annotations[from]
	markTranslated.set(&out, from)
	return &out
}

var openShiftSecretNames = []string{OpenShiftSecretName, OpenShiftSecretNameAlpha}

// OpenShiftAnnotation returns the key of the OpenShift annotation with which a
// translated Service requests its Secret, or "" if the Service was not translated, or was
// stripped without Keep.OpenShiftAnnotation.
func OpenShiftAnnotation(svc *corev1.Service) string {
	key, _ := markTranslated.of(svc)
	return key
}
