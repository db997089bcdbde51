package probe

import (
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func trustIn(t *testing.T, generation int, cas ...rotatortest.CA) Trust {
	t.Helper()
	var bundle pki.Bundle
	for _, ca := range cas {
		bundle = pki.NewBundle(append(bundle.Certificates(), ca.Root)...)
	}
	trust, err := TrustOf(api.CAStatus{Bundle: string(bundle.PEM()), Generation: generation, Since: rotatortest.Noon})
	require.NoError(t, err)
	assert.Equal(t, rotatortest.Noon, trust.Since)
	return trust
}

func TestPodKeyCheck(t *testing.T) {
	now := rotatortest.Noon
	first, second := rotatortest.NewCA(t, 1, now), rotatortest.NewCA(t, 2, now)
	imported, stranger := rotatortest.NewCA(t, 3, now).Renamed(t), rotatortest.NewCA(t, 4, now).Renamed(t)
	tests := []struct {
		name             string
		ca               rotatortest.CA
		issued           time.Time
		trust            Trust
		verifies, newest bool
	}{
		{"by the only generation", first, now, trustIn(t, 1, first), true, true},
		{"by the generation that signs, while an older one is trusted", second, now, trustIn(t, 2, first, second), true, true},
		{"by an older one that is trusted", first, now, trustIn(t, 2, first, second), true, false},
		{"by the one that signs, while the next is trusted already", first, now, trustIn(t, 1, first, second), true, true},
		{"by one that is trusted no more", first, now, trustIn(t, 2, second), false, false},
		{"expired", first, now.Add(-50 * time.Hour), trustIn(t, 1, first), false, false},
		{"by a clock that is ahead", first, now.Add(30 * time.Minute), trustIn(t, 1, first), true, true},
		{"by an imported CA", imported, now, trustIn(t, 3, first, imported), true, true},
		{"by the one before an imported CA", first, now, trustIn(t, 3, first, imported), true, false},
		{"by a foreign CA", stranger, now, trustIn(t, 1, first), false, false},
		{"nothing is published", first, now, Trust{}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			leaf := tt.ca.Issue(t, tt.issued, "web.shop.svc").Leaf
			j := PodKeyRequirements{Demanded: map[uint16]Demand{8443: {Names: "web.shop.svc"}}}.check(8443, leaf, nil, tt.trust, now)
			assert.Equal(t, tt.verifies, j.Verifies)
			assert.Equal(t, tt.newest, j.Newest)
			assert.Equal(t, tt.trust.ID, j.Trust)
			assert.Equal(t, pki.RefreshAt(leaf), j.RefreshAt)
			assert.Empty(t, j.Lacks)
		})
	}
}

func TestDemandedNames(t *testing.T) {
	now := rotatortest.Noon
	ca := rotatortest.NewCA(t, 1, now)
	leaf := ca.Issue(t, now, "web.shop.svc", "web.shop.svc.cluster.local").Leaf
	for demanded, lacks := range map[string]string{
		"": "", "web.shop.svc": "", "web.shop.svc.cluster.local,web.shop.svc": "", "api.shop.svc,db.shop.svc,web.shop.svc": "api.shop.svc", "192.0.2.1": "192.0.2.1",
	} {
		j := PodKeyRequirements{Demanded: map[uint16]Demand{8443: {Names: demanded}, 9443: {Names: "of another port"}}}.check(8443, leaf, nil, trustIn(t, 1, ca), now)
		assert.Equal(t, lacks, j.Lacks)
		assert.Equal(t, demanded, j.Demanded.Names)
	}
}

// Of another signer's certificate only the names and the validity are known; one of the names is enough, and it is due at the
// latest time that Kubernetes allows.
func TestCertificateOfAnotherSigner(t *testing.T) {
	now := rotatortest.Noon
	stranger := rotatortest.NewCA(t, 9, now)
	leaf := stranger.Issue(t, now, "web.shop.svc").Leaf
	check := func(names string, at time.Time) *PodKeyResult {
		return PodKeyRequirements{Demanded: map[uint16]Demand{8443: {Names: names, Other: true}}}.check(8443, leaf, nil, trustIn(t, 1, rotatortest.NewCA(t, 1, now)), at)
	}
	got := check("web.shop.svc,web.shop.svc.cluster.local", now)
	assert.Equal(t, []any{true, true, "", leaf.NotAfter.Add(-10 * time.Minute)}, []any{got.Verifies, got.Newest, got.Lacks, got.RefreshAt})
	assert.Equal(t, "api.shop.svc", check("api.shop.svc,db.shop.svc", now).Lacks)
	assert.False(t, check("web.shop.svc", leaf.NotAfter).Verifies)
	assert.Empty(t, check("web.shop.svc", leaf.NotBefore.Add(-5*time.Minute)).Lacks, "clocks differ")
	assert.NotEmpty(t, check("web.shop.svc", leaf.NotBefore.Add(-6*time.Minute)).Lacks, "clients do not accept it yet")
	client := *leaf
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	leaf = &client
	assert.NotEmpty(t, check("web.shop.svc", now).Lacks, "it is a client's")
	client.ExtKeyUsage = nil

	target := Target{Ports: []uint16{8443}, PodKey: &PodKeyRequirements{Demanded: map[uint16]Demand{8443: {Names: "web.shop.svc", Other: true}}}}
	outcome := Outcome{Kind: TLS, Chain: []*x509.Certificate{leaf}}
	assert.True(t, target.Answer(8443, now, outcome, Trust{}).Ours)
	target.PodKey.Demanded[8443] = Demand{Names: "api.shop.svc", Other: true}
	assert.False(t, target.Answer(8443, now, outcome, Trust{}).Ours, "it is not for the Service")
}

// A certificate beyond the signer's limits is not checked.
func TestOversizedCertificateIsNotOurs(t *testing.T) {
	now := rotatortest.Noon
	ca := rotatortest.NewCA(t, 1, now)
	isJudged := func(resize func(*x509.Certificate, int), over int) bool {
		leaf := ca.Issue(t, now, "web.shop.svc").Leaf
		resize(leaf, over)
		j := PodKeyRequirements{Demanded: map[uint16]Demand{8443: {Names: "api.shop.svc"}}}.check(8443, leaf, nil, trustIn(t, 1, ca), now)
		return j.Lacks != ""
	}
	for name, resize := range map[string]func(leaf *x509.Certificate, over int){
		"bytes": func(leaf *x509.Certificate, over int) {
			leaf.Raw = append(leaf.Raw, make([]byte, pki.MaxCertificate+over-len(leaf.Raw))...)
		},
		"names": func(leaf *x509.Certificate, over int) {
			leaf.DNSNames = slices.Repeat(leaf.DNSNames, api.MaxNames+over)
		},
		"addresses": func(leaf *x509.Certificate, over int) {
			leaf.IPAddresses = slices.Repeat([]net.IP{{192, 0, 2, 1}}, api.MaxNames+over)
		},
	} {
		assert.True(t, isJudged(resize, 0), name)
		assert.False(t, isJudged(resize, 1), name)
	}
}

func TestTrustID(t *testing.T) {
	now := rotatortest.Noon
	first, second := rotatortest.NewCA(t, 1, now), rotatortest.NewCA(t, 2, now)
	ids := map[string]bool{trustIn(t, 1, first).ID: true, trustIn(t, 1, first, second).ID: true, trustIn(t, 2, first, second).ID: true, trustIn(t, 2, second).ID: true}
	assert.Len(t, ids, 4)
	assert.Equal(t, trustIn(t, 1, first, second).ID, trustIn(t, 1, second, first).ID)
	_, err := TrustOf(api.CAStatus{Bundle: "x"})
	assert.ErrorContains(t, err, "CA bundle: ")
}
