package ca

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// The keys of the status ConfigMap beside api.BundleKey. All are public, and
// nobody's decision but a person's is made from them.
const (
	StatusGeneration = "generation"  // the number of the generation that signs
	StatusPhase      = "phase"       // how far a succession is
	StatusSince      = "since"       // when the phase began, RFC 3339
	StatusNotAfter   = "not-after"   // when the signing root expires, RFC 3339
	StatusBundleHash = "bundle-hash" // SHA-256 of ca.crt in hex, as the trust status names it
	StatusProblem    = "problem"     // why nothing is signed: REASON: message
	StatusWarning    = "warning"     // what does not stop signing: REASON: message
)

// Labels of the CA Secret and the status ConfigMap. The Secret deliberately has
// no api.LabelManagedBy: that marks certificates that the signer may re-issue.
var objectLabels = map[string]string{
	"app.kubernetes.io/name":      "servingcert",
	"app.kubernetes.io/component": "ca",
}

// statusData returns what the status ConfigMap is to hold. Where there is no
// readable CA, that is what it held last: a bundle in use is not taken away.
func statusData(d Decision, last map[string]string) map[string]string {
	data := map[string]string{}
	if d.State != nil {
		signing, bundle := d.State.signing(), d.State.Bundle()
		data[api.BundleKey] = string(bundle.PEM())
		data[StatusGeneration] = strconv.Itoa(signing.Number)
		data[StatusPhase] = string(d.State.Phase)
		data[StatusSince] = clock(d.State.Since)
		data[StatusNotAfter] = clock(signing.Root.NotAfter)
		data[StatusBundleHash] = bundle.Hash()
	} else {
		maps.Copy(data, last)
		delete(data, StatusProblem)
		delete(data, StatusWarning)
	}
	if d.Action == ActionStop {
		data[StatusProblem] = d.Reason + ": " + d.Message
	}
	if d.Warning != "" {
		data[StatusWarning] = ReasonConstraintsChanged + ": " + d.Warning
	}
	return data
}

// sameStatus reports whether the ConfigMap is as it is to be. Annotations, and
// labels beside ours, are its users'.
func sameStatus(cm *corev1.ConfigMap, data map[string]string) bool {
	for key, value := range objectLabels {
		if cm.Labels[key] != value {
			return false
		}
	}
	return len(cm.BinaryData) == 0 && maps.Equal(cm.Data, data)
}

// withStatus returns a copy of the ConfigMap as it is to be.
func withStatus(cm *corev1.ConfigMap, data map[string]string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	if cm.Labels == nil {
		cm.Labels = map[string]string{}
	}
	maps.Copy(cm.Labels, objectLabels)
	cm.Data, cm.BinaryData = data, nil
	return cm
}
