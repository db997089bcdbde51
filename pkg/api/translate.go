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
	out.Annotations[TranslatedFrom] = from
	return &out
}

var openShiftSecretNames = []string{OpenShiftSecretName, OpenShiftSecretNameAlpha}

// TranslatedFrom is the annotation of a translated Service that holds the key of the
// original annotation. The API server accepts no annotation with this key, so users
// cannot set it. A process that strips Services keeps it if it needs
// OpenShiftAnnotation.
const TranslatedFrom = "translated from"

// OpenShiftAnnotation returns the key of the OpenShift annotation with which a
// translated Service requests its Secret, or "" if the Service was not translated.
func OpenShiftAnnotation(svc *corev1.Service) string { return svc.Annotations[TranslatedFrom] }
