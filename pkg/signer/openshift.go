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

// OpenShift's service-ca writes annotations beside a certificate. The signer writes them for a
// Service that requests a certificate with OpenShift's annotations. No decision about a
// certificate depends on them.

// The annotations of OpenShift that the signer writes.
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

// openShiftOnSecret returns the desired annotations of the Secret: its oldest Service, in the alpha
// or beta form of that Service's annotation, and the end of the certificate in both forms. Without
// a Service that uses OpenShift's annotations, there are none.
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

// takesOver reports whether the Secret is unchanged since service-ca wrote it, with an imported
// CA: the root is in tls.crt, and the key may not be in PKCS #8. Servers and clients can use it
// until its time in the window.
func (s Situation) takesOver() bool {
	f := s.Secret
	if !s.OpenShift || f.Labelled || f.Empty || f.Defect != "" && !f.OtherForm || !s.Now.Before(f.Leaf.RenewAt) {
		return false
	}
	issuer := f.SignedBy(s.Authority)
	if issuer == nil {
		return false
	}
	root := []*x509.Certificate{issuer.Certificate} // after a rotation, followed by the cross-certificate
	return f.Leaf.Chain == chainDigest(root) || f.Leaf.Chain == chainDigest(slices.Concat(root, issuer.Chain))
}

// openShiftOnService returns the changes of the Service's annotations to write with its
// condition, nil for one to remove. service-ca counts attempts and gives up after ten. The signer
// counts successive different errors, which needs no extra write, and does not give up.
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
	if signedBy != "" { // if it is not known, the annotations stay
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
