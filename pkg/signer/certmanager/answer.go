package certmanager

import (
	"crypto/x509"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// Answer is the result of a request: one of Leaf, Err and Waits is set.
type Answer struct {
	Leaf  *x509.Certificate
	After []*x509.Certificate // the certificates after the leaf in status.certificate
	CA    []*x509.Certificate // status.ca; may be empty or wrong
	Err   *remote.Error       // the request was refused, or the answer is invalid
	Waits string              // what the request waits for
	At    time.Time           // since when
}

// Conditions of a request (cert-manager, pkg/apis/certmanager/v1).
const (
	conditionReady    = "Ready"
	conditionApproved = "Approved"
	conditionDenied   = "Denied"
	conditionInvalid  = "InvalidRequest"
	reasonFailed      = "Failed"
	reasonDenied      = "Denied"
)

const (
	// maxAnswer is the most bytes of a field with certificates.
	maxAnswer = 64 << 10
	// maxMessage is the most characters of another controller's message that are repeated.
	maxMessage = 200
)

// Answer returns the result of the request.
func (r *Request) Answer() Answer {
	by := map[string]metav1.Condition{}
	for _, c := range r.Status.Conditions {
		by[c.Type] = c
	}
	ready := by[conditionReady]
	refused := func(c metav1.Condition, how string) Answer {
		at := r.since(c)
		if r.Status.FailureTime != nil {
			at = r.Status.FailureTime.Time
		}
		return Answer{Err: remote.NewError(issue.ReasonCARefused, "%s %s: %s", r.who(), how, messageOf(c)), At: at}
	}
	switch {
	case by[conditionDenied].Status == metav1.ConditionTrue:
		return refused(by[conditionDenied], "was denied by an approval policy")
	case by[conditionInvalid].Status == metav1.ConditionTrue:
		return refused(by[conditionInvalid], "is invalid")
	case ready.Status == metav1.ConditionFalse && (ready.Reason == reasonFailed || ready.Reason == reasonDenied):
		return refused(ready, "has failed")
	case ready.Status == metav1.ConditionTrue:
		return r.issued(ready)
	case by[conditionApproved].Status != metav1.ConditionTrue:
		return Answer{Waits: r.who() + " is not approved yet", At: r.CreationTimestamp.Time}
	case ready.Message != "":
		return Answer{Waits: r.who() + " waits: " + messageOf(ready), At: r.CreationTimestamp.Time}
	}
	return Answer{Waits: r.who() + " waits: the issuer has not answered", At: r.CreationTimestamp.Time}
}

func (r *Request) issued(ready metav1.Condition) Answer {
	out := Answer{At: r.since(ready)}
	if n := max(len(r.Status.Certificate), len(r.Status.CA)); n > maxAnswer {
		out.Err = remote.NewError(issue.ReasonCAAnswer, "%s: the answer has %d bytes: must be at most %d", r.who(), n, maxAnswer)
		return out
	}
	certs, err := pki.ParseCertificates(r.Status.Certificate)
	if err != nil {
		out.Err = remote.NewError(issue.ReasonCAAnswer, "%s is ready, but status.certificate is not a certificate: %v", r.who(), err)
		return out
	}
	out.Leaf, out.After = certs[0], certs[1:]
	if ca, err := pki.ParseCertificates(r.Status.CA); err == nil { // status.ca is best-effort
		out.CA = ca
	}
	return out
}

// who returns the names of the request and its issuer, for messages.
func (r *Request) who() string {
	return "CertificateRequest " + r.Name + " to " + r.Spec.IssuerRef.String()
}

// since returns the last transition of the condition.
func (r *Request) since(c metav1.Condition) time.Time {
	if c.LastTransitionTime.IsZero() {
		return r.CreationTimestamp.Time
	}
	return c.LastTransitionTime.Time
}

// messageOf returns the message of a condition, with a bounded length.
func messageOf(c metav1.Condition) string {
	if c.Message == "" {
		return c.Reason
	}
	return api.Shorten(c.Message, maxMessage)
}

// Rest is the delay before a request that failed is repeated: an issuer may charge for each
// request, or limit them.
const Rest = 10 * time.Minute

// Spent reports whether a request that failed may be repeated.
func (a Answer) Spent(now time.Time) bool { return now.Sub(a.At) >= Rest }

// SignedBy returns the leaf, or an error if ca has not signed it.
func (a Answer) SignedBy(ca *pki.Authority) (*x509.Certificate, error) {
	switch {
	case a.Err != nil:
		return nil, a.Err
	case a.Leaf.CheckSignatureFrom(ca.Certificate) != nil:
		return nil, remote.NewError(issue.ReasonCAChanged, "signed with CA %q, but clients trust CA %q", a.Leaf.Issuer, ca.Certificate.Subject)
	}
	return a.Leaf, nil
}

// Bounds of the interval at which a pending request is read, which grows with its age.
const (
	firstLook = 250 * time.Millisecond
	lastLook  = time.Minute
)

// Pending returns the error for a request that waits.
func (a Answer) Pending(now time.Time) *issue.PendingError {
	again := min(max(now.Sub(a.At)/2, firstLook), lastLook)
	return &issue.PendingError{Since: a.At, Again: again, Message: a.Waits}
}
