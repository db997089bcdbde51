package signer

import "github.com/servingcert/servingcert/pkg/api"

// The annotations that OpenShift has and the signer writes.
var (
	openShiftSecretKeys = []string{
		api.OpenShiftServiceName, api.OpenShiftServiceNameAlpha, api.OpenShiftServiceUID, api.OpenShiftServiceUIDAlpha,
		api.OpenShiftExpiry, api.OpenShiftExpiryAlpha,
	}
	openShiftServiceKeys = []string{
		api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha,
		api.OpenShiftError, api.OpenShiftErrorAlpha, api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha,
	}
)

// secretAnnotations are the keys of all annotations that contentOf may return, and so
// those that are remembered of a Secret.
var secretAnnotations = append([]string{api.AnnotationRenewedAfter}, openShiftSecretKeys...)

// changedAnnotations returns what has to be written of annotations to make them the
// wanted ones: nil for one that has to be removed.
func changedAnnotations(have, want map[string]string) map[string]any {
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

// withAnnotations returns have with the wanted ones, nil if that leaves none.
func withAnnotations(have, want map[string]string) map[string]string {
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

// only returns the annotations with the keys, nil if there are none.
func only(annotations map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := annotations[key]; ok {
			out = with(out, key, api.TruncateAnnotation(key, value))
		}
	}
	return out
}
