package api

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Translate returns the Service with what it asks for in OpenShift's words said in
// ours: as it is, if it has none of those words; a copy otherwise. A process with
// --openshift-compat reads Services through it and no other does, so that these
// words mean nothing to the others. Ours win over OpenShift's, beta over alpha;
// like service-ca, it passes over an empty name.
func Translate(svc *corev1.Service) *corev1.Service {
	word := ""
	for _, w := range openShiftSecretNames {
		if word == "" && svc.Annotations[w] != "" {
			word = w
		}
	}
	if _, ours := svc.Annotations[AnnotationSecretName]; ours || word == "" {
		return svc
	}
	out := *svc
	out.Annotations = maps.Clone(svc.Annotations)
	out.Annotations[AnnotationSecretName] = svc.Annotations[word]
	out.Annotations[translatedFrom] = word
	return &out
}

var openShiftSecretNames = []string{OpenShiftSecretName, OpenShiftSecretNameAlpha}

// translatedFrom marks what was translated, and the word. The API server takes no
// annotation of such a key, so that nobody else can set it.
const translatedFrom = "translated from"

// OpenShiftWord returns the annotation by which a Service that was translated
// asks for its Secret, empty if it asks in our words, or not at all.
func OpenShiftWord(svc *corev1.Service) string { return svc.Annotations[translatedFrom] }

// KeepWord copies to a stripped Service how it asks, if it was translated.
func KeepWord(stripped, svc *corev1.Service) {
	if word := OpenShiftWord(svc); word != "" {
		metav1.SetMetaDataAnnotation(&stripped.ObjectMeta, translatedFrom, word)
	}
}
