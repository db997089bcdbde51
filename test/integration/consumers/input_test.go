package consumers

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// host is a pod as it is reached: made ready there, it is the only one of its
// Service, both of the given name.
type host struct {
	at      netip.AddrPort
	service []func(*corev1.Service)
	pod     []func(*corev1.Pod)
}

// plainHTTP serves HTTP without TLS.
func plainHTTP(t *testing.T, at netip.AddrPort) host {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: soon}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, server.Close())
		assert.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return host{at: at}
}

// TestWhatPodsMayBe has a Service with one pod for each, and looks at what is said
// when everything has settled.
func TestWhatPodsMayBe(t *testing.T) {
	r := startRotator(t, func(c *rotator.Config) { c.Probe.Timeout = time.Second })
	ns := harness.NewNamespace(t, admin, "shop-", true)
	port := process.PortFor(t, "")
	other := rotatortest.NewCA(t, 7, time.Now()).Renamed(t)
	at := func() netip.AddrPort { return netip.AddrPortFrom(nextAddress(), port) }
	pairs := map[string]*tls.Certificate{}
	pairOf := func(service string) *tls.Certificate {
		if pairs[service] == nil {
			pairs[service] = issue(t, ours, time.Now().Add(-10*time.Minute), service+"."+ns+".svc")
		}
		return pairs[service]
	}
	serves := func(service string, changes ...func(*tls.Config)) host {
		return host{at: serve(t, at(), pairOf(service), changes...).at}
	}
	answers := func(answer func(net.Conn)) host { return host{at: listen(t, at(), answer).at} }
	with := func(h host, service func(*corev1.Service), pod func(*corev1.Pod)) host {
		if service != nil {
			h.service = append(h.service, service)
		}
		if pod != nil {
			h.pod = append(h.pod, pod)
		}
		return h
	}
	// startTLS answers PostgreSQL's SSLRequest, and goes on with TLS.
	startTLS := func(service, answer string) host {
		pair := *pairOf(service)
		return answers(func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 8))
			_, _ = io.WriteString(c, answer)
			rotatortest.Handshakes(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})(c)
		})
	}
	postgres := func(s *corev1.Service) { s.Spec.Ports[0].Name = "postgres" }
	older := issue(t, ours, time.Now().Add(-50*time.Hour), "expired."+ns+".svc")
	distrusted := rotatortest.NewCA(t, 3, time.Now())
	loopback6 := serve(t, netip.MustParseAddrPort("[::1]:0"), pairOf("ipv6"))
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	cases := map[string]struct {
		host
		status metav1.ConditionStatus
		reason string
	}{
		"current":           {serves("current"), yes, api.ServingCurrent},
		"ipv6":              {with(host{at: loopback6.at}, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(int32(loopback6.at.Port())) }, nil), yes, api.ServingCurrent},
		"starttls-named":    {with(startTLS("starttls-named", "S"), postgres, nil), yes, api.ServingCurrent},
		"starttls-declined": {with(startTLS("starttls-declined", "N"), postgres, nil), no, api.ServingPlaintext},
		"starttls-garbage":  {with(startTLS("starttls-garbage", "garbage"), postgres, nil), unknown, api.ServingNotVerified},
		"mtls":              {serves("mtls", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), yes, api.ServingCurrent},
		"named": {with(serves("named"), func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("secure") },
			func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "secure", ContainerPort: int32(port)}}
			}), yes, api.ServingCurrent},
		"expired":    {host{at: serve(t, at(), older).at}, no, api.ServingStale},
		"distrusted": {host{at: serve(t, at(), issue(t, distrusted, time.Now().Add(-time.Hour), "distrusted."+ns+".svc")).at}, no, api.ServingStale},
		"foreign":    {host{at: serve(t, at(), issue(t, other, time.Now(), "foreign."+ns+".svc")).at}, no, api.ServingForeign},
		"plain":      {plainHTTP(t, at()), no, api.ServingPlaintext},
		"closed":     {host{at: at()}, unknown, api.ServingUnreachable},
		"silent":     {answers(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), unknown, api.ServingUnreachable},
		"outside":    {host{at: netip.MustParseAddrPort("192.0.2.7:443")}, unknown, api.ServingNotVerified},
	}
	services := map[string]*corev1.Service{}
	for name, tt := range cases {
		svc := newService(t, ns, name, intstr.FromInt32(int32(port)), tt.service...)
		services[name] = svc
		issued(t, svc, pairOf(name))
		pod := newPod(t, ns, name+"-abc-1", name, tt.pod...)
		isReady(t, pod, tt.at.Addr(), true)
	}
	for name, tt := range cases {
		becomes(t, services[name], tt.status, tt.reason)
		assert.Equal(t, fingerprint(pairOf(name)), stated(t, services[name]).Leaf, name)
	}
	for _, result := range []string{"tls", "plaintext", "refused", "timeout", "first_words"} {
		assert.Positive(t, r.Metrics(t).Sum("servingcert_probes_total", "result", result), result)
	}
	assert.Positive(t, r.Metrics(t).Sum("servingcert_dials_refused_total", "reason", "outside_cidr"))
	for _, e := range harness.Events(t, admin, ns, "ServesOldCertificate", "") {
		assert.Contains(t, []string{"expired", "distrusted"}, e.Regarding.Name, "what is foreign or silent is nobody's fault")
	}
}

// What a server shows while the certificate changes is compared with what is to be
// served when it arrives.
func TestTheCertificateChangesWhileAPodIsDialled(t *testing.T) {
	startRotator(t)
	ns, port := harness.NewNamespace(t, admin, "shop-", true), process.PortFor(t, "")
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)))
	old := issue(t, ours, time.Now().Add(-10*time.Minute), name(svc))
	issued(t, svc, old)
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	server := serve(t, netip.AddrPortFrom(nextAddress(), port), old, func(c *tls.Config) {
		get := c.GetCertificate
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := get(hello) // the one of before
			asked <- struct{}{}
			<-answer
			return pair, err
		}
	})
	pod := newPod(t, ns, "web-abc-1", "web")
	isReady(t, pod, server.at.Addr(), true)
	<-asked
	h := watchServing(t, svc)
	renewed := issue(t, ours, time.Now(), name(svc))
	server.pair.Store(renewed)
	issued(t, svc, renewed)
	harness.Eventually(t, func() error {
		if c := serving(t, svc); c == nil || c.Reason != api.ServingPropagating {
			return fmt.Errorf("condition is %v", c)
		}
		return nil
	})
	close(answer)
	becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotContains(t, h.all(), "False Stale")
	assert.NotContains(t, h.all(), "False Foreign")
}
