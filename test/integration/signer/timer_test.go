package signer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A certificate of 15 minutes is renewed when its time has come, by the signer's own timer:
// no object is touched meanwhile. The signer starts two seconds before that time.
func TestACertificateIsRenewedByItsOwnTimer(t *testing.T) {
	d, shortest := newDeployment(t), func(l *api.Limits) { l.MinDuration = 15 * time.Minute }
	first, err := here(d, options{limits: shortest})
	require.NoError(t, err)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationDuration, "15m")
	issued := first.waitGood(t, ns, "web", "web-tls")
	require.Equal(t, 15*time.Minute, pki.Lifetime(issued.leaf))
	finish(t, first)

	due := &harness.Clock{}
	due.Set(pki.RenewAt(issued.leaf).Add(-2 * time.Second))
	second := startHere(t, d, options{limits: shortest, clock: due})
	renewed := second.waitGood(t, ns, "web", "web-tls", issued.fingerprint())
	assert.False(t, pki.IssuedAt(renewed.leaf).Before(pki.RenewAt(issued.leaf).Truncate(time.Second)), "not when the signer started")
	assert.NotEqual(t, issued.leaf.PublicKey, renewed.leaf.PublicKey)
}

// As README.md types it.
func TestKubectlWaitsForReady(t *testing.T) {
	kubectl := harness.Kubectl(t)
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationSecretName, "A_B") // not a valid name
	answer := harness.KubectlWait(t, kubectl, plane.KubeconfigFile(), api.ConditionReady, ns)
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "web-tls"})
	answer()
	getSecret(t, ns, "web-tls") // is there before the condition says so
	r.waitGood(t, ns, "web", "web-tls")
}
