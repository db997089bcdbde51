package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// In a namespace that is not opted in, users can write a Secret with the signer's label
// and a reference to any Service. A certificate is issued only into a Secret that the
// Service's condition names, because only the signer writes that.
func TestWithoutTheOptInOnlyWhatTheConditionNamesIsIssued(t *testing.T) {
	ca := testCA(t)
	ready := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message}
	}
	kept := api.KeptText([]string{"a-tls", "web-tls"})
	empty := map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}
	garbage := map[string][]byte{corev1.TLSCertKey: []byte("x"), corev1.TLSPrivateKeyKey: []byte("x")}
	for name, c := range map[string]struct {
		condition *metav1.Condition
		data      map[string][]byte
		optedIn   bool
		asks      string
		action    Action
	}{
		"no condition":                        {data: empty, asks: "-"},
		"no condition, and asks":              {data: empty, asks: "web-tls"},
		"no condition, garbage":               {data: garbage, asks: "-"},
		"no condition, opted in":              {data: empty, asks: "-", optedIn: true, action: Reissue},
		"condition of another Secret":         {condition: ready(metav1.ConditionTrue, "Issued", `Secret "old-tls": web.shop.svc`), data: empty, asks: "-"},
		"condition quotes the name elsewhere": {condition: ready(metav1.ConditionFalse, "InvalidAnnotation", `servingcert.dev/duration: "Secret \"web-tls\": x": not a valid duration`), data: empty, asks: "-"},
		"condition of a conflict":             {condition: ready(metav1.ConditionFalse, "SecretConflict", `Secret "web-tls" exists and is not managed by this signer`), data: empty, asks: "-"},

		"issued":                     {condition: ready(metav1.ConditionTrue, "Issued", `Secret "web-tls": web.shop.svc`), data: empty, asks: "web-tls", action: Reissue},
		"issued, garbage":            {condition: ready(metav1.ConditionTrue, "Issued", `Secret "web-tls": web.shop.svc`), data: garbage, asks: "-", action: Reissue},
		"retained":                   {condition: ready(metav1.ConditionTrue, "Retained", `Secret "web-tls": no longer requested`), data: empty, asks: "-", action: Reissue},
		"waiting":                    {condition: ready(metav1.ConditionFalse, "WaitingForTrust", `Secret "web-tls": no certificate`), data: empty, asks: "-", action: Reissue},
		"kept beside another":        {condition: ready(metav1.ConditionTrue, "Issued", `Secret "new-tls": web.shop.svc`+kept+" (request 1)"), data: empty, asks: "new-tls", action: Reissue},
		"kept with a bad annotation": {condition: ready(metav1.ConditionFalse, "InvalidAnnotation", "servingcert.dev/duration: bad"+api.KeptPairText("web-tls", "keeps this Service's names")), data: empty, asks: "-", action: Reissue},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web", api.AnnotationSecretName, c.asks)
			if c.condition != nil {
				web.Status.Conditions = []metav1.Condition{*c.condition}
			}
			w := newScene(ca, managed(Issued{}, web), web)
			w.secret.Data, w.notOptedIn = c.data, !c.optedIn
			_, d := w.decide()
			assert.Equal(t, c.action.String(), d.Action.String(), "%s %s", d.Reason, d.Message)
			assert.Equal(t, c.action == Nothing, len(d.Members) == 0)
		})
	}
}

// What the signer says of a Service without the opt-in names the Secret, so that the
// Service keeps its part in it.
func TestAProblemWithoutTheOptInStillNamesTheSecret(t *testing.T) {
	ca, web := testCA(t), service("web")
	w := newScene(ca, managed(Issued{}, web), web)
	w.notOptedIn, w.caErr = true, caError("CALost")
	web.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: `Secret "web-tls": web.shop.svc`}}
	s, d := w.decide()
	c := readyOf(t, s, d, web)
	assert.Equal(t, `Secret "web-tls": CALost: for a test`, c.Message)
	web.Status.Conditions = []metav1.Condition{c}
	w.caErr = nil
	_, d = w.decide()
	assert.Equal(t, Reissue.String(), d.Action.String())
}

// A Service that asks for none keeps several Secrets: one of them decides what its
// condition says, or each would overwrite what the other has written.
func TestOneOfSeveralKeptSecretsDecidesTheCondition(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issue(t, ca, wantedBy(web), epoch)
	web = service("web", api.AnnotationSecretName, "-")
	w := newScene(ca, managed(issued, web), web)
	for other, decides := range map[string]bool{"a-tls": false, "z-tls": true} {
		s, d := w.decide()
		s.Kept[web.UID] = []string{other}
		words := said(s, d)["web"]
		assert.Equal(t, decides, words != "", "beside %s: %s", other, words)
		if decides {
			assert.Contains(t, words, `kept from before, and renewed until deleted: ["z-tls"]`)
		}
	}
}

// While the CA is being read after a start, nothing is said: a condition that was removed
// would take from a Service without the opt-in its part in the Secret, for good.
func TestWithoutTheOptInNothingIsSaidBeforeTheCAIsRead(t *testing.T) {
	ca, web := testCA(t), service("web")
	w := newScene(ca, managed(issue(t, ca, wantedBy(web), epoch), web), web)
	w.notOptedIn, w.caErr = true, caError(reasonPending)
	web.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Retained", Message: `Secret "web-tls": kept`}}
	assert.Empty(t, said(w.decide()))

	w.caErr, w.terminating = nil, true
	assert.Empty(t, said(w.decide()), "a namespace that is being deleted")
}
