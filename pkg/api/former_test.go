package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// moved are the limits of a cluster whose domain was first old, then cluster.local.
func moved() Limits {
	limits := DefaultLimits()
	limits.ClusterDomain, limits.FormerDomains = "new.domain", []string{"old", "cluster.local"}
	return limits
}

func TestFormerNames(t *testing.T) {
	now := []string{"web.shop.svc", "web.shop.svc.new.domain"}
	r, err := Parse(service(), moved())
	require.NoError(t, err)
	assert.Equal(t, now, r.DNSNames)
	assert.Equal(t, []string{"web.shop.svc.cluster.local", "web.shop.svc.old"}, r.FormerNames)

	headless := service()
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	r, err = Parse(headless, moved())
	require.NoError(t, err)
	assert.Equal(t, []string{"*.web.shop.svc.cluster.local", "*.web.shop.svc.old", "web.shop.svc.cluster.local", "web.shop.svc.old"}, r.FormerNames)

	same := moved()
	same.FormerDomains = []string{"new.domain"}
	r, err = Parse(service(), same)
	require.NoError(t, err)
	assert.Empty(t, r.FormerNames, "it is the domain now")

	wanted, _, ok := Merge([]*corev1.Service{service(), named("x", time.Hour)}, moved())
	require.True(t, ok)
	assert.Equal(t, []string{"web.shop.svc.cluster.local", "web.shop.svc.old", "x.shop.svc.cluster.local", "x.shop.svc.old"}, wanted.FormerNames)
	assert.Equal(t, wanted.FormerNames, Retained([]*corev1.Service{service(), named("x", time.Hour)}, moved()).FormerNames)
}

// A Service may request names below any of its domains, including former ones.
func TestExtraNamesInAFormerDomain(t *testing.T) {
	asks := service(AnnotationExtraDNSNames, "a.web.shop.svc.cluster.local")
	r, err := Parse(asks, moved())
	require.NoError(t, err)
	assert.Contains(t, r.DNSNames, "a.web.shop.svc.cluster.local")
	assert.Contains(t, Retained([]*corev1.Service{asks}, moved()).DNSNames, "a.web.shop.svc.cluster.local")
	_, err = Parse(service(AnnotationExtraDNSNames, "a.db.shop.svc.cluster.local"), moved())
	require.ErrorContains(t, err, "must be below web.shop.svc or web.shop.svc.new.domain")
	over := moved()
	over.FormerDomains = nil
	_, err = Parse(asks, over)
	assert.Error(t, err)
}

// A suffix that contains a former cluster domain does not permit the names of other Services there, which those still
// serve.
func TestASuffixPermitsNoServiceOfAFormerDomain(t *testing.T) {
	limits := moved()
	for _, text := range []string{"team-*=old", "team-*=svc.old", "team-*=cluster.local"} {
		rule, err := ParseSuffixRule(text, limits.ClusterDomain)
		require.NoError(t, err)
		limits.PermitDNSSuffixes = append(limits.PermitDNSSuffixes, rule)
	}
	asks := func(name string) *corev1.Service {
		svc := service(AnnotationExtraDNSNames, name)
		svc.Namespace = "team-x"
		return svc
	}
	for name, permitted := range map[string]bool{
		"web.shop.svc.old": false, "a.web.shop.svc.old": false, "*.web.shop.svc.old": false, "*.shop.svc.old": false, "shop.svc.old": false,
		"svc.old": false, "*.svc.old": false, "web.shop.svc.cluster.local": false, "db.team-x.svc.old": false, "*.team-x.svc.old": false,
		"web.team-x.svc.old": true, "*.web.team-x.svc.old": true, "old": true, "*.old": true, "web.shop.old": true, "xsvc.old": true,
	} {
		r, err := Parse(asks(name), limits)
		retained := Retained([]*corev1.Service{asks(name)}, limits).DNSNames
		if permitted {
			require.NoError(t, err, name)
			assert.Contains(t, r.DNSNames, name)
			assert.Contains(t, retained, name)
			continue
		}
		require.ErrorContains(t, err, "not permitted: svc.", name)
		assert.NotContains(t, retained, name)
	}
	other := asks("web.shop.svc.old")
	other.Annotations[AnnotationIssuer] = string(IssuerExternal)
	_, err := Parse(other, limits)
	assert.NoError(t, err, "nothing is issued")
}

// Former names are not requested: no Service is refused because of them, and they do
// not change the hash of a request.
func TestFormerNamesRefuseNoService(t *testing.T) {
	before := moved()
	before.FormerDomains = nil
	services := []*corev1.Service{service(AnnotationExtraDNSNames, names(MaxNames-4)), named("x", time.Hour)}
	without, _, ok := Merge(services, before)
	require.True(t, ok)
	require.Len(t, without.DNSNames, MaxNames)
	with, members, ok := Merge(services, moved())
	require.True(t, ok)
	assert.Empty(t, refusals(members))
	assert.Equal(t, without.DNSNames, with.DNSNames)
	assert.Equal(t, without.Hash(), with.Hash())
	assert.Len(t, with.FormerNames, 4)
}
