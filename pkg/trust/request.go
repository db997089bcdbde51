package trust

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Request is what an object's annotations request; the zero value is nothing.
type Request struct {
	// Requested: the object is to hold the bundle.
	Requested bool
	// Key is that of a ConfigMap's data that is to hold the bundle. An object of
	// any other kind has one field for it.
	Key string
	// Alone: the ConfigMap's data is to hold nothing else.
	Alone bool
	// Problem says why the annotation cannot be followed, for people.
	Problem string

	files    Files  // that a ConfigMap is to have beside the bundle
	ifPublic Files  // and those that it is to have if there are public roots
	password string // of files that have one; empty for formats.DefaultPassword
	lacks    string // which of that cannot be followed, for people
}

// RequestAnnotations returns the annotations that request the bundle. The first
// that an object has decides.
func RequestAnnotations() []string {
	return []string{api.AnnotationInjectCABundle, api.OpenShiftInjectCABundle, api.OpenShiftInjectCABundleAlpha, api.OpenShiftInjectLegacy}
}

// RequestOf returns what the annotations of an object request; with openShift,
// those of OpenShift too. An object that is being deleted requests nothing.
func RequestOf(obj metav1.Object, openShift bool) Request {
	if obj.GetDeletionTimestamp() != nil {
		return Request{}
	}
	for _, annotation := range RequestAnnotations() {
		value, ok := obj.GetAnnotations()[annotation]
		switch {
		case !ok:
		case annotation == api.AnnotationInjectCABundle:
			r := ownRequest(value)
			if r.Requested {
				r.addFiles(obj.GetAnnotations())
			}
			return r
		case openShift && (annotation != api.OpenShiftInjectLegacy || isLegacy(obj)):
			return openShiftRequest(value)
		}
	}
	return Request{}
}

// isLegacy reports whether the object is one on which api.OpenShiftInjectLegacy counts.
func isLegacy(obj metav1.Object) bool {
	_, is := obj.(*corev1.ConfigMap)
	return is && obj.GetName() == api.OpenShiftLegacyName
}

func ownRequest(value string) Request {
	switch value {
	case "true":
		return Request{Requested: true, Key: api.BundleKey}
	case "false":
		return Request{}
	}
	return Request{Requested: true, Key: api.BundleKey, Problem: fmt.Sprintf(`annotation %s: %q: must be "true" or "false"`,
		api.AnnotationInjectCABundle, api.Shorten(value, api.TrustMaxMessage))}
}

// openShiftRequest follows service-ca: "true" in any case, and any other value
// requests nothing.
func openShiftRequest(value string) Request {
	if !strings.EqualFold(value, "true") {
		return Request{}
	}
	return Request{Requested: true, Key: api.OpenShiftBundleKey, Alone: true}
}
