package signer

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

func TestEvents(t *testing.T) {
	web := service("web")
	for want, event := range map[string]Event{
		`Normal CertificateReissued: RenewalDue: Secret "web-tls" has a new certificate: due for renewal since then`: reissued(web, "web-tls", reasonDue, "due for renewal since then"),
		`Warning RenewalFailed: Secret "web-tls" keeps its present certificate: the CA is lost`:                      renewalFailed(web, "web-tls", errors.New("the CA is lost")),
		`Warning InvalidAnnotation: not a duration`:                                                                  notReady(web, condition(false, reasonInvalid, "not a duration", state.Ready{})),
	} {
		assert.Equal(t, want, event.Type+" "+event.Reason+": "+event.Note)
		assert.Same(t, web, event.Service)
	}
}

// An event for each write that it reports: none for a first issue, one for what
// replaced a certificate or could not, and one for a condition that turns False.
func TestSettleReports(t *testing.T) {
	ca, web := testCA(t), service("web")
	good := issueBy(t, ca, wantedBy(web), epoch)
	due := pki.RenewAt(good.Leaf)
	reasons := func(s StatusUpdate) (reasons []string) {
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
	written := FactsOf(managed(good, web), api.DefaultInstance)
	update := StatusUpdateOf(s, d, Outcome{Secret: written})
	assert.Empty(t, reasons(update), "a first issue")
	assert.Equal(t, written.Leaf.Fingerprint, update.Leaf)
	assert.Equal(t, due, update.NextAt)
	assert.Equal(t, ratelimit.PriorityRenewal, update.Priority())
	update = StatusUpdateOf(s, d, Outcome{Err: errors.New("no")})
	assert.Equal(t, []string{string(ReasonSignFailed)}, reasons(update))
	assert.Equal(t, ReasonSignFailed, update.Failure)
	assert.Equal(t, ratelimit.PriorityAwaited, update.Priority())
	require.Len(t, update.Services, 1)
	assert.Empty(t, update.Services[0].Failure, "counted as the attempt that it was")
	update = StatusUpdateOf(s, d, Outcome{Err: &issue.PendingError{Message: "not approved yet"}})
	assert.Equal(t, []string{"SigningPending"}, reasons(update))
	assert.Empty(t, update.Failure, "to wait is no failure, however often it is looked at")
	assert.Equal(t, "not approved yet", update.Services[0].Ready.Message)

	w := newScene(ca, managed(good, web), web)
	w.now = due
	s, d = w.decide()
	renewed := issueBy(t, ca, wantedBy(web), due)
	update = StatusUpdateOf(s, d, Outcome{Secret: FactsOf(managed(renewed, web), api.DefaultInstance)})
	assert.Equal(t, []string{"CertificateReissued"}, reasons(update))
	assert.Equal(t, pki.Fingerprint(renewed.Leaf), update.Leaf)
	update = StatusUpdateOf(s, d, Outcome{Err: caError("CAUnreachable")})
	assert.Equal(t, []string{"RenewalFailed", "CAUnreachable"}, reasons(update), "and nothing has been said of the certificate yet")
	assert.Equal(t, Reason("CAUnreachable"), update.Failure)

	w = newScene(ca, nil, service("web", api.AnnotationDuration, "abc"))
	s, d = w.decide()
	update = StatusUpdateOf(s, d, Outcome{})
	assert.Equal(t, []string{"InvalidAnnotation"}, reasons(update))
	assert.Equal(t, reasonInvalid, update.Services[0].Failure)
}

// Only a Service that requests a certificate in a namespace without the label gets the event.
func TestNotOptedInNotice(t *testing.T) {
	const says = `namespace "shop" does not have label servingcert.dev/inject=enabled: the Service gets no certificate; to opt in: kubectl label namespace shop servingcert.dev/inject=enabled`
	answered := service("web")
	answered.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.ReasonNotOptedIn}}
	deleted := service("web")
	deleted.DeletionTimestamp = &metav1.Time{Time: epoch}
	openShift := api.Translate(service("web", api.AnnotationSecretName, "-", api.OpenShiftBeta+"/serving-cert-secret-name", "web-tls"))
	require.True(t, api.Asks(openShift))
	for name, c := range map[string]struct {
		svc     *corev1.Service
		optedIn bool
		want    bool
	}{
		"asks for a Secret":              {service("web"), false, true},
		"asks for what is not allowed":   {service("web", api.AnnotationDuration, "x"), false, true},
		"asks for a Secret with no name": {service("web", api.AnnotationSecretName, ""), false, true},
		"asks for keys of its pods":      {service("web", api.AnnotationSecretName, "-", api.AnnotationKeySource, "pod"), false, true},
		"opted in":                       {service("web"), true, false},
		"asks for nothing":               {service("web", api.AnnotationSecretName, "-"), false, false},
		"its condition says so":          {answered, false, false},
		"is being deleted":               {deleted, false, false},
		"asks by OpenShift's annotation": {openShift, false, false},
	} {
		e := NotOptedInNotice(c.svc, c.optedIn)
		require.Equal(t, c.want, e != nil, name)
		if c.want {
			assert.Equal(t, Event{c.svc, corev1.EventTypeWarning, "NamespaceNotOptedIn", says}, *e, name)
		}
	}
}

// A change that does not concern the request causes no other event.
func TestAsksAnew(t *testing.T) {
	silent, web, other := service("web", api.AnnotationSecretName, "-"), service("web"), service("web", api.AnnotationSecretName, "other-tls")
	podKeys, longer := service("web", api.AnnotationKeySource, "pod"), service("web", api.AnnotationDuration, "48h")
	for name, c := range map[string]struct {
		before, after *corev1.Service
		want          bool
	}{
		"a new Service that asks":     {nil, web, true},
		"a new Service that does not": {nil, silent, false},
		"it was annotated":            {silent, web, true},
		"for another Secret":          {web, other, true},
		"for keys of its pods":        {web, podKeys, true},
		"for a longer time":           {web, longer, false},
		"nothing changed":             {web, web, false},
		"it does not ask any more":    {web, silent, false},
		"it was deleted":              {web, nil, false},
	} {
		assert.Equal(t, c.want, AsksAnew(c.before, c.after), name)
	}
}

// Little is kept of a Service without a request, and all relevant fields of one with a request.
func TestKeep(t *testing.T) {
	plain, asks := &corev1.Service{}, service("web")
	assert.False(t, Keep(plain).Selector)
	assert.True(t, Keep(asks).Selector)
	assert.False(t, Keep(asks).OpenShiftAnnotation)
	openShift := api.Translate(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.OpenShiftSecretNameAlpha: "web-tls", "example.com/a": "b", api.OpenShiftError: "no"}}})
	assert.Subset(t, Keep(openShift).Annotations, openShiftServiceKeys)
	assert.True(t, Keep(openShift).OpenShiftAnnotation)
}

// TestWhatIsKeptIsRefusedAsTheWholeIs: Parse sees what the cache has kept.
func TestWhatIsKeptIsRefusedAsTheWholeIs(t *testing.T) {
	for key, value := range map[string]string{
		api.AnnotationDuration: "24h", api.AnnotationKeyAlgorithm: "ED25519", api.AnnotationClusterIPs: "true", api.AnnotationBackendTLSPolicy: "true",
	} {
		svc := service("web")
		svc.Annotations[api.AnnotationIssuer], svc.Annotations[key] = string(api.IssuerExternal), value
		_, whole := api.Parse(svc, api.DefaultLimits())
		_, kept := api.Parse(api.StripService(svc, Keep(svc)), api.DefaultLimits())
		assert.Error(t, whole, key)
		assert.Equal(t, whole, kept, key)
	}
}
