package signer

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// In a namespace without the label, a certificate is issued only if the Secret holds a usable pair
// that this CA signed, with all names of the new certificate. The conditions of Services make no
// difference.
func TestWithoutTheOptInNothingNewIsIssued(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		s := w.scene(t)
		s.notOptedIn, s.terminating, s.caErr = true, false, nil
		if rapid.Bool().Draw(t, "as the signer left it, but for the pair") {
			s.secret, s.now = managed(w.drawPair(t, s.services), s.services...), epoch.Add(29*day)
		}
		for _, svc := range s.services {
			svc.Status.Conditions = drawReady(t).Both()
		}
		situation, d := s.decide()
		if !d.Issues() {
			return
		}
		f := situation.Secret
		if f == nil || f.Defect != "" || f.SignedBy(w.ca) == nil {
			t.Fatalf("%s is issued: %s", d.Wanted.DNSNames, d.Message)
		}
		for _, name := range d.Wanted.DNSNames {
			if !slices.Contains(f.Leaf.DNSNames, name) {
				t.Fatalf("%s is issued, and the Secret's leaf is for %s", d.Wanted.DNSNames, f.Leaf.DNSNames)
			}
		}
		for _, ip := range d.Wanted.IPs {
			if !slices.Contains(f.Leaf.IPs, ip) {
				t.Fatalf("%s is issued, and the Secret's leaf is for %s", d.Wanted.IPs, f.Leaf.IPs)
			}
		}
	})
}

// drawReady draws condition Ready as the signer, or another user, may write it.
func drawReady(t *rapid.T, proofs ...string) *state.Condition {
	names := rapid.SliceOf(rapid.SampledFrom([]string{"a-tls", "web-tls", "web.shop.svc"}))
	ready := state.Ready{
		Secret: oneOf(t, "secret", "web-tls", "a-tls", ""), Request: oneOf(t, "request", "1", ""), Leaf: oneOf(t, "leaf", strings.Repeat("0a", 32), ""),
		Kept: names.Draw(t, "kept"), Names: names.Draw(t, "names"), Proof: oneOf(t, "proof", append(proofs, "")...),
	}
	return state.Say(metav1.Condition{
		Type: api.ConditionReady, Message: rapid.String().Draw(t, "message"),
		Status: oneOf(t, "status", metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
		Reason: oneOf(t, "reason", "Issued", "Retained", "PodKeys", "WaitingForTrust", "InvalidAnnotation", "NamespaceNotOptedIn", "Mine"),
	}, ready)
}

// In a namespace that is not opted in, users can write a Secret with the signer's label, a
// reference to any Service and a pair of their own. Some may write the Service's condition.
// A certificate is issued only if the condition names the Secret and the Secret holds a pair of
// this CA, and only for names in both.
func TestWithoutTheOptInOnlyWhatConditionAndSecretShowIsIssued(t *testing.T) {
	ca := testCA(t)
	ready := func(status metav1.ConditionStatus, reason, secret string, kept ...string) *state.Condition {
		return state.Say(metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: "said"}, state.Ready{Secret: secret, Kept: kept})
	}
	issued := ready(metav1.ConditionTrue, "Issued", "web-tls")
	pairOf := func(by *pki.Authority, wanted api.Wanted) map[string][]byte {
		pair := issueBy(t, by, wanted, epoch)
		return map[string][]byte{corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM}
	}
	its, others := pairOf(ca, wantedBy(service("web"))), pairOf(ca, wantedBy(service("db")))
	mismatch := map[string][]byte{corev1.TLSCertKey: its[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: others[corev1.TLSPrivateKeyKey]}
	part := wantedBy(service("web"))
	part.DNSNames = part.DNSNames[:1]
	both := wantedBy(service("web"), service("db"))
	empty := map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}
	garbage := map[string][]byte{corev1.TLSCertKey: []byte("x"), corev1.TLSPrivateKeyKey: []byte("x")}
	const noPart, nothing = "no part", "nothing" // what becomes of it, if no names are issued
	for name, c := range map[string]struct {
		condition *state.Condition
		data      map[string][]byte
		optedIn   bool
		asks      string
		outcome   string
	}{
		"no condition":                     {data: its, asks: "-", outcome: noPart},
		"no condition, and asks":           {data: its, asks: "web-tls", outcome: noPart},
		"no condition, garbage":            {data: garbage, asks: "-", outcome: noPart},
		"no condition, opted in":           {data: empty, asks: "-", optedIn: true, outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"condition of another Secret":      {condition: ready(metav1.ConditionTrue, "Issued", "old-tls"), data: its, asks: "-", outcome: noPart},
		"condition names another kept one": {condition: ready(metav1.ConditionTrue, "Issued", "new-tls", "old-tls"), data: its, asks: "-", outcome: noPart},
		"condition of a conflict":          {condition: ready(metav1.ConditionFalse, "SecretConflict", ""), data: its, asks: "-", outcome: noPart},

		"issued":                     {condition: issued, data: its, asks: "web-tls", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"retained":                   {condition: ready(metav1.ConditionTrue, "Retained", "web-tls"), data: its, asks: "-", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"waiting":                    {condition: ready(metav1.ConditionFalse, "WaitingForTrust", "web-tls"), data: its, asks: "-", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"kept beside another":        {condition: ready(metav1.ConditionTrue, "Issued", "new-tls", "a-tls", "web-tls"), data: its, asks: "new-tls", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"kept with a bad annotation": {condition: ready(metav1.ConditionFalse, "InvalidAnnotation", "web-tls"), data: its, asks: "-", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"nothing was shown before":   {condition: ready(metav1.ConditionFalse, api.ReasonNotOptedIn, "web-tls"), data: its, asks: "web-tls", outcome: "web.shop.svc web.shop.svc.cluster.local"},
		"issued for one name":        {condition: issued, data: pairOf(ca, part), asks: "web-tls", outcome: "web.shop.svc"},
		"issued for several":         {condition: issued, data: pairOf(ca, both), asks: "web-tls", outcome: "web.shop.svc web.shop.svc.cluster.local"},

		"empty":              {condition: issued, data: empty, asks: "web-tls", outcome: nothing},
		"empty, asks not":    {condition: issued, data: empty, asks: "-", outcome: nothing},
		"garbage":            {condition: issued, data: garbage, asks: "web-tls", outcome: nothing},
		"of another CA":      {condition: issued, data: pairOf(testCA(t), wantedBy(service("web"))), asks: "web-tls", outcome: nothing},
		"of a forged CA":     {condition: issued, data: pairOf(forge(t, ca), wantedBy(service("web"))), asks: "web-tls", outcome: nothing},
		"of another Service": {condition: issued, data: others, asks: "web-tls", outcome: nothing},
		"with another key":   {condition: issued, data: mismatch, asks: "web-tls", outcome: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web", api.AnnotationSecretName, c.asks)
			web.Status.Conditions = c.condition.Both()
			w := newScene(ca, managed(issue.Issued{}, web), web)
			w.now = epoch.Add(29 * day) // due
			w.secret.Data, w.notOptedIn = c.data, !c.optedIn
			s, d := w.decide()
			outcome := strings.Join(d.Wanted.DNSNames, " ")
			switch {
			case len(d.Participants) == 0:
				outcome = noPart
			case !d.Issues():
				outcome = nothing
				said := readyOf(t, s, d, web)
				assert.Equal(t, api.ReasonNotOptedIn, said.Reason)
				assert.Equal(t, `Secret "web-tls": namespace "shop" does not have label servingcert.dev/inject=enabled, and the Secret does not hold a key and a certificate of this CA with names of the Service: nothing is issued until the namespace has the label`, said.Message)
				web.Status.Conditions = said.Both()
				assert.True(t, state.ReadyOf(web).Has("web-tls"), "once it is mended, it is renewed")
			}
			assert.Equal(t, c.outcome, outcome, "%s %s", d.Reason, d.Message)
		})
	}
}

// The condition of a Service without the opt-in names the Secret, so that the Service continues to
// share it.
func TestAProblemWithoutTheOptInStillNamesTheSecret(t *testing.T) {
	ca, web := testCA(t), service("web")
	w := newScene(ca, managed(issueBy(t, ca, wantedBy(web), epoch), web), web)
	w.now, w.notOptedIn, w.caErr = epoch.Add(31*day), true, caError("CALost")
	web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "web-tls"}).Both()
	s, d := w.decide()
	c := readyOf(t, s, d, web)
	assert.Equal(t, `Secret "web-tls": CALost: for a test`, c.Message)
	web.Status.Conditions = c.Both()
	w.caErr = nil
	_, d = w.decide()
	assert.Equal(t, Reissue.String(), d.Action.String(), "an expired one too")
}

// If a Service without a request keeps several Secrets, its condition is about one of them. Otherwise
// their reconciles would overwrite each other's condition.
func TestOneOfSeveralKeptSecretsDecidesTheCondition(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	web = service("web", api.AnnotationSecretName, "-")
	w := newScene(ca, managed(issued, web), web)
	for other, decides := range map[string]bool{"a-tls": false, "z-tls": true} {
		s, d := w.decide()
		s.Kept[web.UID] = Kept{Names: []string{other}, All: 1}
		words := said(s, d)["web"]
		assert.Equal(t, decides, words != "", "beside %s: %s", other, words)
		if decides {
			assert.Contains(t, words, `kept from before, and renewed until deleted: "z-tls"`)
		}
	}
}

// While the CA is being read after a start, no condition changes: without its condition, a Service
// without the opt-in would no longer share the Secret.
func TestWithoutTheOptInNothingIsSaidBeforeTheCAIsRead(t *testing.T) {
	ca, web := testCA(t), service("web")
	w := newScene(ca, managed(issueBy(t, ca, wantedBy(web), epoch), web), web)
	w.notOptedIn, w.caErr = true, caError(reasonPending)
	web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Retained"}, state.Ready{Secret: "web-tls"}).Both()
	assert.Empty(t, said(w.decide()))

	w.caErr, w.terminating = nil, true
	assert.Empty(t, said(w.decide()), "a namespace that is being deleted")
}
