package trust

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Request is what an object's annotations request; the zero value requests nothing.
type Request struct {
	// Requested: the object must hold the bundle.
	Requested bool
	// Key is the key of a ConfigMap's data for the bundle. Objects of other kinds have one
	// field for it.
	Key string
	// Alone: the ConfigMap's data must hold nothing else.
	Alone bool
	// Problem says why the annotation cannot be followed, for people.
	Problem string

	files    Files  // additional files of a ConfigMap
	ifPublic Files  // further files, if there are public roots
	password string // of encrypted files; empty for formats.DefaultPassword
	lacks    string // which part cannot be followed, for people
}

// RequestAnnotations returns the annotations that request the bundle. The first
// that an object has decides.
func RequestAnnotations() []string {
	return []string{api.AnnotationInjectCABundle, api.OpenShiftInjectCABundle, api.OpenShiftInjectCABundleAlpha, api.OpenShiftInjectLegacy}
}

// RequestOf returns what the annotations of an object request; with openShift, OpenShift's
// annotations count too. An object that is being deleted requests nothing.
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

// isLegacy reports whether api.OpenShiftInjectLegacy applies to the object.
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

// openShiftRequest follows service-ca: "true" in any letter case requests the bundle, and
// any other value requests nothing.
func openShiftRequest(value string) Request {
	if !strings.EqualFold(value, "true") {
		return Request{}
	}
	return Request{Requested: true, Key: api.OpenShiftBundleKey, Alone: true}
}
