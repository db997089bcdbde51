package signer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// signsAddresses returns a CA that permits IP addresses.
func signsAddresses(t *testing.T) *pki.Authority {
	return newCA(t, permissive().Constraints(), epoch.Add(-day), epoch.Add(1000*day))
}

// The address of a deleted Service may be assigned to another one, so a certificate with it is
// valid for a day at most, whatever the Services of the Secret request.
func TestACertificateWithClusterIPsLivesForADay(t *testing.T) {
	ips := []string{api.AnnotationClusterIPs, "true"}
	for name, c := range map[string]struct {
		services []*corev1.Service
		limit    time.Duration
		want     time.Duration
		says     string
	}{
		"by default":           {[]*corev1.Service{service("web", ips...)}, 24 * time.Hour, 24 * time.Hour, "; its lifetime is 24h0m0s and not 720h0m0s, because it holds ClusterIPs"},
		"asked for longer":     {[]*corev1.Service{service("web", append(ips, api.AnnotationDuration, "2160h")...)}, 24 * time.Hour, 24 * time.Hour, "is 24h0m0s and not 2160h0m0s"},
		"asked for shorter":    {[]*corev1.Service{service("web", append(ips, api.AnnotationDuration, "2h")...)}, 24 * time.Hour, 2 * time.Hour, ""},
		"another asks for IPs": {[]*corev1.Service{service("api"), service("web", ips...)}, 24 * time.Hour, 24 * time.Hour, "is 24h0m0s and not 720h0m0s"},
		"no IPs":               {[]*corev1.Service{service("web")}, 24 * time.Hour, 720 * time.Hour, ""},
		"another limit":        {[]*corev1.Service{service("web", ips...)}, 48 * time.Hour, 48 * time.Hour, "is 48h0m0s and not 720h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(signsAddresses(t), nil, c.services...)
			w.limits = permissive()
			w.limits.ClusterIPDuration = c.limit
			s, d := w.decide()
			require.Equal(t, Create, d.Action, d.Message)
			w.apply(t, s, d, plainSign())
			s, d = w.decide()
			assert.Equal(t, Nothing.String(), d.Action.String(), "%s %s", d.Reason, d.Message)
			leaf := s.Secret.Leaf
			assert.Equal(t, c.want, leaf.NotAfter.Sub(leaf.NotBefore))
			assert.Contains(t, said(s, d)["web"], c.says)
			if c.says == "" {
				assert.NotContains(t, said(s, d)["web"], "lifetime")
			}
		})
	}
}

// A certificate with a longer lifetime is replaced, and a retained one has no longer lifetime.
func TestLongCertificatesWithClusterIPsAreReplaced(t *testing.T) {
	w := newScene(signsAddresses(t), nil, service("web", api.AnnotationClusterIPs, "true"))
	w.limits = permissive()
	w.limits.ClusterIPDuration = w.limits.MaxDuration
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	w.limits.ClusterIPDuration = 24 * time.Hour
	_, d = w.decide()
	assert.Equal(t, []any{Reissue, reasonDuration}, []any{d.Action, d.Reason})

	web := w.services[0].DeepCopy()
	delete(web.Annotations, api.AnnotationSecretName)
	web.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: `Secret "web-tls": web.shop.svc`}}
	w.services[0], w.now = web, epoch.Add(700*time.Hour)
	s, d = w.decide()
	require.Equal(t, []any{Reissue, reasonDue, true}, []any{d.Action, d.Reason, d.Retained})
	w.apply(t, s, d, plainSign())
	s = w.situation()
	assert.NotEmpty(t, s.Secret.Leaf.IPs)
	assert.Equal(t, 24*time.Hour, s.Secret.Leaf.NotAfter.Sub(s.Secret.Leaf.NotBefore))
}

// A remote CA chooses the lifetime, and a longer one than requested is refused. So the requested
// lifetime is not shortened.
func TestARemoteCAGivesTheLifetimeOfAddresses(t *testing.T) {
	ca := *signsAddresses(t)
	ca.Key = nil
	limits := permissive()
	asked := wantedBy(service("web"))
	asked.IPs = append(asked.IPs, netip.MustParseAddr("10.0.0.1"))
	got, _ := Acceptable(asked, limits, &ca)
	assert.Equal(t, 720*time.Hour, got.Params.Duration)
}
