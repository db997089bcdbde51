package signer

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

func TestDecideHonoursTheLimits(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	soon := epoch.Add(90 * time.Second)
	rates := ratelimit.Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 1000, Interval: time.Second}}
	const (
		bySecret    = "too many certificates were issued: the limit for one Secret is reached (20 at once, then one every 1m0s); the next one for this Secret is issued at 2026-03-01T12:01:31Z"
		byNamespace = "too many certificates were issued: the limit for one namespace is reached (1000 at once, then one every 1s); the next one for this Secret is issued at 2026-03-01T12:01:31Z"
	)
	issuedBefore := []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: `Secret "web-tls": web`}}
	refusedBefore := []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "InvalidAnnotation"}}
	rename := func(w *scene) {
		w.services[0].Annotations[api.AnnotationExtraDNSNames] = "www.web.shop.svc"
	}
	for name, c := range map[string]struct {
		change func(w *scene)
		slot   ratelimit.Slot
		waits  bool
		says   string // the condition; empty: unchanged
	}{
		"names changed, tokens there": {change: rename},
		"names changed, token taken":  {change: rename, slot: ratelimit.Slot{Secret: epoch, Namespace: epoch}},
		"names changed, limit of the namespace": {change: rename,
			slot: ratelimit.Slot{Secret: epoch, Namespace: soon}, waits: true},
		"names changed, limit of the Secret": {change: rename,
			slot: ratelimit.Slot{Secret: soon}, waits: true},
		"names changed, and refused before": {change: func(w *scene) {
			rename(w)
			w.services[0].Status.Conditions = refusedBefore
		}, slot: ratelimit.Slot{Secret: soon}, waits: true, says: bySecret},
		"Secret missing": {change: func(w *scene) { w.secret = nil },
			slot: ratelimit.Slot{Secret: epoch, Namespace: soon}, waits: true, says: byNamespace},
		"Secret missing, and its Service says that it waits": {change: func(w *scene) {
			w.secret, w.services[0].Status.Conditions = nil, []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "RateLimited", Message: byNamespace}}
		}, slot: ratelimit.Slot{Secret: epoch, Namespace: soon}, waits: true, says: byNamespace},
		"first issue, no token of the namespace": {change: func(w *scene) { w.secret, w.services[0].Status.Conditions = nil, nil },
			slot: ratelimit.Slot{Secret: epoch}},
		"first issue, limit of the Secret": {change: func(w *scene) { w.secret, w.services[0].Status.Conditions = nil, nil },
			slot: ratelimit.Slot{Secret: soon}, waits: true, says: bySecret},
		"key missing": {change: func(w *scene) { delete(w.secret.Data, corev1.TLSPrivateKeyKey) },
			slot: ratelimit.Slot{Secret: epoch, Namespace: soon}, waits: true, says: byNamespace},
		"expired, and other names wait for the namespace": {change: func(w *scene) {
			rename(w)
			w.now = issued.Leaf.NotAfter
		}, slot: ratelimit.Slot{Secret: epoch, Namespace: issued.Leaf.NotAfter.Add(time.Hour)}},
		"nothing to issue": {change: func(*scene) {}, slot: ratelimit.Slot{Secret: soon, Namespace: soon}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(ca, managed(issued, web), web.DeepCopy())
			w.services[0].Status.Conditions = issuedBefore
			c.change(w)
			s := w.situation()
			s.Rates, s.Slot = rates, c.slot
			d := Decide(s, OwnershipOf(s))
			if !c.waits {
				assert.Empty(t, d.Problem)
				assert.Equal(t, name != "nothing to issue", d.Issues())
				return
			}
			assert.Equal(t, "Nothing", d.Action.String())
			assert.Equal(t, soon, d.NextAt)
			update := StatusUpdateOf(s, d, Outcome{})
			assert.Equal(t, soon, update.NextAt)
			assert.Empty(t, update.Events)
			if c.says == "" {
				assert.Empty(t, update.Services, "the certificate is good, and its condition stays")
				assert.Equal(t, s.Secret.Leaf.Fingerprint, update.Leaf)
				return
			}
			ready := readyOf(t, s, d, w.services[0])
			assert.Equal(t, metav1.ConditionFalse, ready.Status)
			assert.Equal(t, "RateLimited", ready.Reason)
			assert.Equal(t, c.says, ready.Message)

			s.Now = soon
			assert.True(t, Decide(s, OwnershipOf(s)).Issues())
		})
	}
}

// TestCauses: every reason to issue a certificate has its row, with what that costs the namespace,
// and whether clients accept the certificate until it is replaced.
func TestCauses(t *testing.T) {
	want := map[Reason]int{
		reasonFirst: 0, reasonDue: 0, reasonExpired: 0, reasonNotYetValid: 0, reasonSucceeded: 0, reasonOtherCA: 0, reasonChainChanged: 0,
		reasonMissing: 1, reasonEmpty: 1, reasonKeyMissing: 1, reasonGarbage: 1, reasonMismatch: 1,
		reasonWrongUsage: 1, reasonNames: 1, reasonAlgorithm: 1, reasonDuration: 1, reasonRequested: 1,
	}
	works := []Reason{reasonDue, reasonSucceeded, reasonNames, reasonAlgorithm, reasonDuration, reasonRequested}
	seen := map[Reason]bool{}
	for _, row := range causes { // a reason may have several
		seen[row.reason] = true
		assert.Equal(t, tokensOfRSA4096, row.tokens(pki.RSA4096), row.reason)
		assert.Equal(t, slices.Contains(works, row.reason), row.works, row.reason)
		tokens := want[row.reason]
		if row.hold != nil { // it concerns many Secrets at the same time, so that each has its own time
			tokens = 0
		}
		assert.Equal(t, tokens, row.tokens(pki.ECDSAP256), row.reason)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(seen)))
}
