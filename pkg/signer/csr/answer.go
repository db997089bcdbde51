package csr

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Condition is a condition of a CertificateSigningRequest.
type Condition = certificatesv1.CertificateSigningRequestCondition

// Approval returns the condition that approves or denies a request. The API server adds
// the times.
func Approval(d Decision) Condition {
	if d.Verdict == Deny {
		return condition(certificatesv1.CertificateDenied, d)
	}
	return condition(certificatesv1.CertificateApproved, d)
}

// Failed returns all conditions of a request that was approved and cannot be signed.
func Failed(r *Request, d Decision) []Condition {
	return append(slices.Clone(r.Conditions), condition(certificatesv1.CertificateFailed, d))
}

func condition(kind certificatesv1.RequestConditionType, d Decision) Condition {
	return Condition{Type: kind, Status: corev1.ConditionTrue, Reason: d.Reason, Message: api.Shorten(d.Message, maxMessage)}
}

// maxMessage is the most characters of a condition's message.
const maxMessage = 1024

// Certificate returns the chain that is written into the request, in PEM. It returns an
// *issue.RefusedError if the common name is not the requested one, since the requester would
// request a certificate again at once. A remote CA may choose another common name.
func Certificate(d Decision, issued issue.Issued) ([]byte, error) {
	if got := issued.Leaf.Subject.CommonName; got != d.Sign.CommonName {
		return nil, &issue.RefusedError{Err: fmt.Errorf("the signed certificate is not what was requested: its common name is %q, must be %q", got, d.Sign.CommonName)}
	}
	return issued.CertPEM, nil
}
