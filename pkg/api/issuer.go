package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationIssuer names who issues the certificate in a Service's Secret: its value is an Issuer.
const AnnotationIssuer = Domain + "/issuer"

// An Issuer is a value of AnnotationIssuer.
type Issuer string

// The values of Issuer.
const (
	// IssuerServingcert: the signer. The default.
	IssuerServingcert Issuer = "servingcert"
	// IssuerExternal: another tool, such as cert-manager, or a person. The signer reads the Secret and
	// never writes it. With KeySourcePod: another signer of podCertificate volumes, which the pods
	// have themselves.
	IssuerExternal Issuer = "external"
)

// Reasons of condition Ready for a Service with IssuerExternal. Its status is True.
const (
	// ReasonExternal: the Secret holds a certificate that pods can serve, or another signer answers the
	// requests of the pods.
	ReasonExternal = "External"
	// ReasonRenewalOverdue: in addition, its issuer should have renewed it.
	ReasonRenewalOverdue = "RenewalOverdue"
)

// IssuerOf returns the value of the Service's AnnotationIssuer, IssuerServingcert if it has none,
// and a *FieldError if the value is not valid.
func IssuerOf(svc *corev1.Service) (Issuer, error) {
	value, ok := svc.Annotations[AnnotationIssuer]
	if !ok {
		return IssuerServingcert, nil
	}
	if detail := checkShape(AnnotationIssuer, value); detail != "" {
		return IssuerServingcert, &FieldError{AnnotationIssuer, value, detail}
	}
	return Issuer(value), nil
}

// IsExternal reports whether another issuer writes the Service's Secret. It returns false if the
// annotation is not valid, in which case Parse refuses the Service.
func IsExternal(svc *corev1.Service) bool {
	issuer, err := IssuerOf(svc)
	return err == nil && issuer == IssuerExternal
}

// HasOtherPodKeys reports whether the pods of the Service have keys of their own, with certificates of another signer.
func HasOtherPodKeys(svc *corev1.Service) bool { return WantsPodKeys(svc) && IsExternal(svc) }

// AsksSigner reports whether the Service requests a certificate that the signer issues.
func AsksSigner(svc *corev1.Service) bool { return Asks(svc) && !IsExternal(svc) }

// ofIssuedOnly are annotations about certificates that the signer issues. A renewal may have been
// requested before the issuer changed, so AnnotationRenewAfter is not among them.
var ofIssuedOnly = []string{AnnotationDuration, AnnotationKeyAlgorithm, AnnotationClusterIPs, AnnotationBackendTLSPolicy}

func (r *Request) parseIssuer(svc *corev1.Service, _ Limits) error {
	issuer, err := IssuerOf(svc)
	if r.External = issuer == IssuerExternal; !r.External {
		return err
	}
	if ports := ProxyTargets(svc); HasOtherPodKeys(svc) && len(ports) > 0 {
		return &FieldError{AnnotationKeySource, string(KeySourcePod), fmt.Sprintf("the proxy of targetPort %s gets no certificate of another signer: must be %s with %s: %s, or the Service must be without such a port",
			ports[0], KeySourceSecret, AnnotationIssuer, IssuerExternal)}
	}
	for _, key := range ofIssuedOnly {
		value, set := svc.Annotations[key]
		if set && value != "false" {
			return &FieldError{key, value, fmt.Sprintf("is about certificates that servingcert issues: must not be set together with %s: %s", AnnotationIssuer, IssuerExternal)}
		}
	}
	return nil
}
