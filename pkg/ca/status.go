package ca

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Labels of the CA Secret and the status ConfigMap. The Secret deliberately has
// no api.LabelManagedBy: that marks certificates that the signer may re-issue.
var objectLabels = map[string]string{
	"app.kubernetes.io/name":      "servingcert",
	"app.kubernetes.io/component": "ca",
}

// statusData returns what the status ConfigMap is to hold. Where there is no
// readable CA, that is what it held last: a bundle in use is not taken away.
// leaves are the certificates in use by issuer, nil if they were not counted.
func statusData(o Observed, d Decision, leaves map[string]int, last map[string]string) map[string]string {
	data := map[string]string{}
	if d.State == nil {
		maps.Copy(data, last)
		delete(data, api.CAProblem)
		delete(data, api.CAWarning)
	} else {
		describeState(data, *d.State, o)
		describeLeaves(data, *d.State, leaves)
	}
	set := func(key, value string) {
		if value != "" {
			data[key] = value
		}
	}
	set(api.CAWaitingFor, d.Waiting)
	if d.Reason != "" {
		data[api.CAProblem] = d.Reason + ": " + d.Message
	}
	var warnings []string
	for _, w := range d.Warnings {
		warnings = append(warnings, w.Reason+": "+w.Message)
	}
	set(api.CAWarning, strings.Join(warnings, "\n"))
	return data
}

func describeState(data map[string]string, s State, o Observed) {
	signing, newest, bundle := s.signing(), s.newest(), s.Bundle(o.Now)
	phase, since := s.phase(o.Now, o.Reissue)
	data[api.BundleKey] = string(bundle.PEM())
	data[api.CABundleHash] = bundle.Hash()
	data[api.CAGeneration] = strconv.Itoa(signing.Number)
	if o.StatusGeneration > newest.Number {
		data[api.CANewest] = strconv.Itoa(o.StatusGeneration)
	}
	data[api.CANotAfter] = clock(signing.ends())
	data[api.CAPhase] = phase
	data[api.CASince] = clock(since)
	if phase != api.PhaseStable && newest.Why != "" {
		data[api.CAWhy] = newest.Why
	}
	if s.waiting() {
		data[api.CANextGeneration] = strconv.Itoa(newest.Number)
	}
	if s.Rotation != (Rotation{}) {
		data[api.CARotation] = s.Rotation.String()
		data[api.CARotationOutcome] = s.Rotation.outcome(s)
	}
}

// describeLeaves says how many certificates the generation that signs has signed,
// while there may be others.
func describeLeaves(data map[string]string, s State, leaves map[string]int) {
	if phase := data[api.CAPhase]; leaves == nil || phase != api.PhaseReissue && phase != api.PhaseRetire {
		return
	}
	all := 0
	for _, n := range leaves {
		all += n
	}
	data[api.CALeaves] = strconv.Itoa(all)
	data[api.CAReplaced] = strconv.Itoa(leaves[pki.Fingerprint(s.signing().Issuer())])
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
