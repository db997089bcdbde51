package signer

import "github.com/servingcert/servingcert/pkg/api"

// annotations are those of an object that the signer answers for, "" for one that must not be
// there. All others stay as they are.
type annotations map[string]string

// changes returns what has to be written of the annotations an object has to make them the wanted
// ones: nil for one that has to be removed.
func (want annotations) changes(have map[string]string) map[string]any {
	var changed map[string]any
	for key, value := range want {
		if old, there := have[key]; old == value && there == (value != "") {
			continue
		}
		if changed == nil {
			changed = map[string]any{}
		}
		if changed[key] = value; value == "" {
			changed[key] = nil
		}
	}
	return changed
}

// over returns the annotations an object has with the wanted ones, nil if that leaves none.
func (want annotations) over(have map[string]string) map[string]string {
	var out map[string]string
	for key, value := range have {
		if _, ours := want[key]; !ours {
			out = with(out, key, value)
		}
	}
	for key, value := range want {
		if value != "" {
			out = with(out, key, value)
		}
	}
	return out
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// secretAnnotations are the keys of all annotations that contentOf may return, and so
// those that are remembered of a Secret.
var secretAnnotations = append([]string{api.AnnotationRenewedAfter, api.AnnotationKeystorePassword, api.AnnotationKeystoreDigest}, openShiftSecretKeys...)

// only returns those of an object's annotations that have the keys, nil if there are none.
func only(have map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := have[key]; ok {
			out = with(out, key, api.TruncateAnnotation(key, value))
		}
	}
	return out
}
