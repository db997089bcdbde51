package podcert

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// Denied returns the status of a denied request.
func Denied(d Decision, now time.Time) certificatesv1.PodCertificateRequestStatus {
	return status(certificatesv1.PodCertificateRequestConditionTypeDenied, d.Reason, d.Message, now)
}

// Issued returns the status of a request whose certificate was issued.
func Issued(issued issue.Issued, now time.Time) certificatesv1.PodCertificateRequestStatus {
	leaf := issued.Leaf
	out := status(certificatesv1.PodCertificateRequestConditionTypeIssued, "Issued", "leaf sha256:"+pki.Fingerprint(leaf), now)
	out.CertificateChain = string(issued.CertPEM)
	out.NotBefore, out.NotAfter, out.BeginRefreshAt = at(leaf.NotBefore), at(leaf.NotAfter), at(pki.RefreshAt(leaf))
	return out
}

func status(condition, reason, message string, now time.Time) certificatesv1.PodCertificateRequestStatus {
	return certificatesv1.PodCertificateRequestStatus{Conditions: []metav1.Condition{{
		Type: condition, Status: metav1.ConditionTrue, Reason: reason,
		Message: api.Shorten(message, maxMessage), LastTransitionTime: metav1.NewTime(now),
	}}}
}

// maxMessage is the most characters of a condition's message.
const maxMessage = 1024

func at(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
