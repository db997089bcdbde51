package trust

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// words are the annotations that ask for the bundle.
type words struct {
	openShift bool // OpenShift's too
}

// ask is what an object's annotations ask for; the zero value for nothing.
type ask struct {
	asked bool
	// key is that of a ConfigMap's data that is to hold the bundle. An object of
	// any other kind has one place for it.
	key string
	// alone: the ConfigMap's data is to hold nothing else.
	alone bool
	// problem says why the annotation cannot be followed, for people.
	problem string
}

// of is pure. The first annotation that is there decides: ours, OpenShift's beta,
// OpenShift's alpha. An object that is being deleted asks for nothing.
func (w words) of(obj metav1.Object) ask {
	if obj.GetDeletionTimestamp() != nil {
		return ask{}
	}
	annotations := obj.GetAnnotations()
	if value, ok := annotations[api.AnnotationInjectCABundle]; ok {
		return ours(value)
	}
	if !w.openShift {
		return ask{}
	}
	for _, word := range []string{api.OpenShiftInjectCABundle, api.OpenShiftInjectCABundleAlpha} {
		if value, ok := annotations[word]; ok {
			return openShifts(value)
		}
	}
	return ask{}
}

func ours(value string) ask {
	switch value {
	case "true":
		return ask{asked: true, key: api.BundleKey}
	case "false":
		return ask{}
	}
	return ask{asked: true, key: api.BundleKey, problem: fmt.Sprintf(`annotation %s: %q: must be "true" or "false"`, api.AnnotationInjectCABundle, shorten(value))}
}

// openShifts follows service-ca: any case of "true", and what is anything else is
// passed over.
func openShifts(value string) ask {
	if !strings.EqualFold(value, "true") {
		return ask{}
	}
	return ask{asked: true, key: api.OpenShiftBundleKey, alone: true}
}
