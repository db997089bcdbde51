package status

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestTrustInIdentities(t *testing.T) {
	published := api.CAStatus{Generation: 1, BundleHash: "0123456789abcdef"}.Data()
	for name, tt := range map[string]struct {
		held    *api.TrustStatus
		notSeen string
		want    string
	}{
		"held":      {&api.TrustStatus{BundleHash: "0123456789abcdef"}, "", "ClusterTrustBundle servingcert.dev:client:ca holds the bundle"},
		"other":     {&api.TrustStatus{BundleHash: "abcdef0123456789"}, "", "ClusterTrustBundle servingcert.dev:client:ca holds bundle abcdef012345, but the CA has published 0123456789ab"},
		"none":      {nil, "", "ClusterTrustBundle servingcert.dev:client:ca has no roots, so that pods whose proxy verifies clients do not start"},
		"invalid":   {&api.TrustStatus{Targets: 1}, "", "ClusterTrustBundle servingcert.dev:client:ca has no roots, so that pods whose proxy verifies clients do not start"},
		"forbidden": {nil, "this user may not read it", "ClusterTrustBundle servingcert.dev:client:ca: this user may not read it"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, IdentitiesOf(published, tt.held, tt.notSeen).Trust())
		})
	}
}

func withIdentities(created time.Time) []Consumer {
	return []Consumer{
		{Namespace: "shop", Kind: "Deployment", Name: "cart", Identity: true, Created: created.Add(-time.Second)},
		{Namespace: "shop", Kind: "Deployment", Name: "cart", Identity: true, Created: created},
		{Namespace: "shop", Kind: "Deployment", Name: "api", Identity: true, Created: created},
		{Namespace: "shop", Kind: "Deployment", Name: "web", Bundle: true, Created: created.Add(-time.Hour)},
	}
}

func TestOldIdentities(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	assert.Equal(t, "1 pod of 1 workload: shop Deployment/cart", CountOldIdentities(withIdentities(at), at.Add(-time.Second)).String(), "one that was created in that second may have an older one")
	assert.Equal(t, "3 pods of 2 workloads: shop Deployment/api, shop Deployment/cart", CountOldIdentities(withIdentities(at), time.Time{}).String())
}

// A workload with an identity breaks if the CA for identities is replaced, and not if the other one is.
func TestWhomTheCAForIdentitiesBreaks(t *testing.T) {
	k := DistrustSituation{Lost: "CALost: gone", Consumers: withIdentities(time.Time{})}
	text := IdentityConsequences(k)
	assert.Contains(t, text, "The CA cannot be used (CALost: gone). If you have a backup of Secret servingcert-client-ca, restore it instead: that breaks no client.\n")
	assert.Contains(t, text, " after two thirds of its lifetime: 2: shop Deployment/api, shop Deployment/cart\n")
	assert.Equal(t, Breaks{Problem: "CALost: gone", Services: []string{}, Workloads: []BreakingWorkload{
		{"shop", "Deployment", "api", "identity"}, {"shop", "Deployment", "cart", "identity"},
	}}, IdentityBreaksOf(k))
	assert.Equal(t, []BreakingWorkload{{"shop", "Deployment", "web", "client"}}, BreaksOf(k).Workloads)

	k = DistrustSituation{ConsumersErr: errors.New("no\x1b")}
	assert.Contains(t, IdentityConsequences(k), " after two thirds of its lifetime: unknown: no")
	assert.Equal(t, `no\u001b`, IdentityBreaksOf(k).WorkloadsUnknown)
}
