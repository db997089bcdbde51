package signer

import "github.com/servingcert/servingcert/pkg/api"

// annotations are the wanted annotations of an object, "" for one that must not exist. All
// others are left unchanged.
type annotations map[string]string

// changes returns the difference between the annotations of an object and the wanted ones: nil
// for one to remove.
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

// over returns the annotations of an object with the wanted ones, nil if there are none.
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

// secretAnnotations are the keys of all annotations that contentOf may return, and of those that
// tell who writes the Secret. SecretFacts contain these.
var secretAnnotations = append([]string{api.AnnotationIssuedLeaf, api.AnnotationCertificateName, api.AnnotationRenewedAfter, api.AnnotationKeystorePassword, api.AnnotationKeystoreDigest}, openShiftSecretKeys...)
