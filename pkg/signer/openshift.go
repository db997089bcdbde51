package signer

import (
	"crypto/x509"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// What OpenShift's service-ca writes beside a certificate, and we for a Service
// that asks with its annotations. None of it is ever read back to decide about a
// certificate; it is only compared with what it is to be.

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

// openShiftOnSecret returns the annotations that are to be on the Secret: the Service that it is for, in the form of the annotation that
// asks, and the end of the certificate in both forms. Of several Services it is the
// oldest, as the owners are in order; without any, nothing is to be there.
func openShiftOnSecret(participants []*corev1.Service, notAfter time.Time) annotations {
	want := annotations{}
	for _, key := range openShiftSecretKeys {
		want[key] = ""
	}
	i := slices.IndexFunc(participants, func(svc *corev1.Service) bool { return api.OpenShiftAnnotation(svc) != "" })
	if i < 0 {
		return want
	}
	svc, expiry := participants[i], notAfter.UTC().Format(time.RFC3339)
	want[api.OpenShiftExpiry], want[api.OpenShiftExpiryAlpha] = expiry, expiry
	if api.OpenShiftAnnotation(svc) == api.OpenShiftSecretNameAlpha {
		want[api.OpenShiftServiceNameAlpha], want[api.OpenShiftServiceUIDAlpha] = svc.Name, string(svc.UID)
	} else {
		want[api.OpenShiftServiceName], want[api.OpenShiftServiceUID] = svc.Name, string(svc.UID)
	}
	return want
}

// takesOver reports whether the Secret is as service-ca wrote it, under a CA that was
// imported: with its root in tls.crt and its form of key. Servers and clients can go on
// with that until the certificate's own moment.
func (s Situation) takesOver() bool {
	f := s.Secret
	if !s.OpenShift || f.Labelled || f.Empty || f.Defect != "" && !f.OtherForm || !s.Now.Before(f.Leaf.RenewAt) {
		return false
	}
	issuer := f.SignedBy(s.Authority)
	if issuer == nil {
		return false
	}
	root := []*x509.Certificate{issuer.Certificate} // behind it, after a rotation, what the CA before signed
	return f.Leaf.Chain == chainDigest(root) || f.Leaf.Chain == chainDigest(slices.Concat(root, issuer.Chain))
}

// openShiftOnService returns what has to be written of the Service's annotations
// beside its condition, nil for one that has to be removed. service-ca counts
// attempts and gives up after ten. Here the number is of different errors in a row,
// so that it costs no write of its own, and nobody gives up.
func openShiftOnService(svc *corev1.Service, ready *state.Condition, signedBy string, failed bool) map[string]any {
	if api.OpenShiftAnnotation(svc) == "" || ready == nil {
		return nil
	}
	want := annotations{}
	set := func(value string, keys ...string) {
		for _, key := range keys {
			want[key] = value
		}
	}
	if signedBy != "" { // who signed last stays, if that is not known now
		set(signedBy, api.OpenShiftSignedBy, api.OpenShiftSignedByAlpha)
	}
	set("", api.OpenShiftError, api.OpenShiftErrorAlpha, api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha)
	if failed {
		set(ready.Message, api.OpenShiftError, api.OpenShiftErrorAlpha)
		set(strconv.Itoa(errorNumber(svc.Annotations, ready.Message)), api.OpenShiftErrorNum, api.OpenShiftErrorNumAlpha)
	}
	return want.changes(svc.Annotations)
}

func errorNumber(annotations map[string]string, message string) int {
	n, err := strconv.Atoi(annotations[api.OpenShiftErrorNum])
	if err != nil || n < 1 {
		n = 0
	}
	if n > 0 && annotations[api.OpenShiftError] == message {
		return n
	}
	return n + 1
}
