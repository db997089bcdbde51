package signer

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestEvents(t *testing.T) {
	web := service("web")
	for want, event := range map[string]Event{
		`Normal CertificateReissued: RenewalDue: Secret "web-tls" has a new certificate: due for renewal since then`: reissued(web, "web-tls", reasonDue, "due for renewal since then"),
		`Warning RenewalFailed: Secret "web-tls" keeps the certificate that it has: the CA is lost`:                  renewalFailed(web, "web-tls", errors.New("the CA is lost")),
		`Warning InvalidAnnotation: not a duration`:                                                                  notReady(web, condition(false, reasonInvalid, "not a duration")),
	} {
		assert.Equal(t, want, event.Type+" "+event.Reason+": "+event.Note)
		assert.Same(t, web, event.Service)
	}
}

// An event for each write that it reports: none for a first issue, one for what
// replaced a certificate or could not, and one for a condition that turns False.
func TestSettleReports(t *testing.T) {
	ca, web := testCA(t), service("web")
	good := issue(t, ca, wantedBy(web), epoch)
	due := pki.RenewAt(good.Leaf)
	reasons := func(s Settlement) (reasons []string) {
		for _, e := range s.Events {
			reasons = append(reasons, e.Reason)
		}
		for _, status := range s.Services {
			if status.NotReady != nil {
				reasons = append(reasons, status.NotReady.Reason)
			}
		}
		return reasons
	}

	s, d := newScene(ca, nil, web).decide()
	written := d.With(s, good).Facts(nil, ca).WrittenAs(&managed(good, web).ObjectMeta)
	settled := Settle(s, d, Outcome{Secret: written})
	assert.Empty(t, reasons(settled), "a first issue")
	assert.Equal(t, written.Leaf.Fingerprint, settled.Leaf)
	assert.Equal(t, due, settled.NextAt)
	assert.Equal(t, PriorityRenewal, settled.Priority())
	settled = Settle(s, d, Outcome{Err: errors.New("no")})
	assert.Equal(t, []string{string(ReasonSignFailed)}, reasons(settled))
	assert.Equal(t, ReasonSignFailed, settled.Failure)
	assert.Equal(t, PriorityAwaited, settled.Priority())
	require.Len(t, settled.Services, 1)
	assert.Empty(t, settled.Services[0].Failure, "counted as the attempt that it was")

	w := newScene(ca, managed(good, web), web)
	w.now = due
	s, d = w.decide()
	renewed := issue(t, ca, wantedBy(web), due)
	settled = Settle(s, d, Outcome{Secret: d.With(s, renewed).Facts(s.Secret, ca).WrittenAs(&w.secret.ObjectMeta)})
	assert.Equal(t, []string{"CertificateReissued"}, reasons(settled))
	assert.Equal(t, pki.Fingerprint(renewed.Leaf), settled.Leaf)
	settled = Settle(s, d, Outcome{Err: caError("CAUnreachable")})
	assert.Equal(t, []string{"RenewalFailed", "CAUnreachable"}, reasons(settled), "and nothing has been said of the certificate yet")
	assert.Equal(t, Reason("CAUnreachable"), settled.Failure)

	w = newScene(ca, nil, service("web", api.AnnotationDuration, "abc"))
	settled = Settle(w.situation(), Decide(w.situation()), Outcome{})
	assert.Equal(t, []string{"InvalidAnnotation"}, reasons(settled))
	assert.Equal(t, reasonInvalid, settled.Services[0].Failure)
}
