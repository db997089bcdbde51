package signer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestATooLargeServiceKeepsItsCertificate: it gets no first certificate, but its present one is
// renewed with its names, also in a shared Secret.
func TestATooLargeServiceKeepsItsCertificate(t *testing.T) {
	const extra = "a.web.shop.svc,b.web.shop.svc"
	selecting := func(svc *corev1.Service, n int) *corev1.Service {
		svc.Spec.Selector = map[string]string{}
		for i := range n {
			svc.Spec.Selector[fmt.Sprint("label-", i)] = "x"
		}
		return svc
	}
	kept := func(svc *corev1.Service) *corev1.Service { return api.StripService(svc, Keep(svc)) }
	long := extra
	for i := range 20 {
		long += fmt.Sprintf(",name-%d.web.shop.svc", i)
	}
	for name, tc := range map[string]struct {
		large func() *corev1.Service
		says  string
	}{
		"selector": {func() *corev1.Service {
			return kept(selecting(service("web", api.AnnotationExtraDNSNames, long), 20_000))
		}, `spec.selector: "20000 labels": must be at most 64`},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", shared ", shared), func(t *testing.T) {
				services := []*corev1.Service{service("web", api.AnnotationExtraDNSNames, long)}
				if shared {
					services = append(services, service("zoo"))
				}
				w := newScene(testCA(t), nil, services...)
				s, d := w.decide()
				w.apply(t, s, d, plainSign())
				first := FactsOf(w.secret, api.DefaultInstance).Leaf
				require.Contains(t, first.DNSNames, "name-19.web.shop.svc")

				ready := readyOf(t, s, d, services[0])
				services[0] = tc.large()
				services[0].Status.Conditions = ready.Both()
				s, d = w.decide()
				assert.Equal(t, Nothing.String(), d.Action.String(), "%s", d.Message)
				assert.Contains(t, said(s, d)["web"], "False TooLarge: "+tc.says)
				assert.Contains(t, said(s, d)["web"], `; the certificate in Secret "web-tls"`)

				w.now = first.RenewAt
				s, d = w.decide()
				require.Equal(t, reasonDue, d.Reason)
				w.apply(t, s, d, plainSign())
				assert.Equal(t, first.DNSNames, FactsOf(w.secret, api.DefaultInstance).Leaf.DNSNames)

				w.secret = nil
				_, d = w.decide()
				if assert.Equal(t, shared, d.Issues()) && shared {
					assert.NotContains(t, d.Wanted.DNSNames, "web.shop.svc", "it has no certificate to keep")
				}
			})
		}
	}
}
