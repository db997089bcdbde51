package consumers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
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
	r := startRotator(t, func(c *rotatorConfig) { c.Probe.Timeout = time.Second })
	ns := newNamespace(t)
	port := process.PortFor(t, "")
	other := newAuthority(7, false)
	at := func() netip.AddrPort { return netip.AddrPortFrom(nextAddress(), port) }
	pairs := map[string]*tls.Certificate{}
	pairOf := func(service string) *tls.Certificate {
		if pairs[service] == nil {
			pairs[service] = ours.issue(t, time.Now().Add(-10*time.Minute), service+"."+ns+".svc")
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
	annotated := func(s *corev1.Service) {
		s.Annotations[api.AnnotationProbe] = "443=postgres"
	}
	program := func(p *corev1.Pod) {
		p.Labels[api.LabelInjected] = "true"
		p.Annotations = map[string]string{api.AnnotationStatus: api.InjectionStatus{StartTLS: map[string]string{strconv.Itoa(int(port)): "postgres"}}.Format()}
	}
	more := func(p corev1.ServicePort) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, p) }
	}
	older := ours.issue(t, time.Now().Add(-50*time.Hour), "expired."+ns+".svc")
	distrusted := newAuthority(3, true)
	loopback6 := serve(t, netip.MustParseAddrPort("[::1]:0"), pairOf("ipv6"))
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	cases := map[string]struct {
		host
		status metav1.ConditionStatus
		reason string
	}{
		"current":            {serves("current"), yes, api.ServingCurrent},
		"ipv6":               {with(host{at: loopback6.at}, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(int32(loopback6.at.Port())) }, nil), yes, api.ServingCurrent},
		"hostnetwork":        {with(serves("hostnetwork"), nil, func(p *corev1.Pod) { p.Spec.HostNetwork = true }), yes, api.ServingCurrent},
		"starttls-named":     {with(startTLS("starttls-named", "S"), postgres, nil), yes, api.ServingCurrent},
		"starttls-annotated": {with(startTLS("starttls-annotated", "S"), annotated, nil), yes, api.ServingCurrent},
		"starttls-program":   {with(startTLS("starttls-program", "S"), func(s *corev1.Service) { s.Spec.Ports[0].Name = "db" }, program), yes, api.ServingCurrent},
		"starttls-direct":    {with(serves("starttls-direct"), postgres, nil), yes, api.ServingCurrent},
		"starttls-declined":  {with(startTLS("starttls-declined", "N"), postgres, nil), no, api.ServingPlaintext},
		"starttls-garbage":   {with(startTLS("starttls-garbage", "garbage"), postgres, nil), unknown, api.ServingNotVerified},
		"mtls":               {serves("mtls", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), yes, api.ServingCurrent},
		"mtls-1-2": {serves("mtls-1-2", func(c *tls.Config) {
			c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		}), yes, api.ServingCurrent},
		"named": {with(serves("named"), func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("secure") },
			func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "secure", ContainerPort: int32(port)}}
			}), yes, api.ServingCurrent},
		"named-nowhere":     {with(serves("named-nowhere"), func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("secure") }, nil), no, api.ServingNoPort},
		"number-too-large":  {with(serves("number-too-large"), more(corev1.ServicePort{Name: "tls-b", Port: 444, TargetPort: intstr.FromString("sc-tls-99999")}), nil), no, api.ServingNoPort},
		"misspelt":          {with(serves("misspelt"), more(corev1.ServicePort{Name: "b", Port: 444, TargetPort: intstr.FromString("sc-tsl-8080")}), nil), no, api.ServingNoPort},
		"proxy-lacking":     {with(serves("proxy-lacking"), more(corev1.ServicePort{Name: "b", Port: 444, TargetPort: intstr.FromString("sc-tls-8080")}), nil), no, api.ServingNoPort},
		"second-closed":     {with(serves("second-closed"), more(corev1.ServicePort{Name: "tls-b", Port: 444, TargetPort: intstr.FromInt32(1)}), nil), unknown, api.ServingUnreachable},
		"second-plain-http": {with(serves("second-plain-http"), more(corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromInt32(1)}), nil), yes, api.ServingCurrent},
		"udp": {with(serves("udp"), func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
		}, nil), yes, api.ServingCurrent},
		"udp-alone":   {with(serves("udp-alone"), func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, nil), unknown, api.ServingNoPort},
		"unselective": {with(serves("unselective"), func(s *corev1.Service) { s.Spec.Selector = nil }, nil), yes, api.ServingCurrent},
		"projected": {with(serves("projected"), nil, func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "projected-tls"}},
			}}}}
		}), yes, api.ServingCurrent},
		"two-ports": {with(serves("two-ports"), func(s *corev1.Service) {
			s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1, TargetPort: intstr.FromInt32(1)}, {Name: "b", Port: 2, TargetPort: intstr.FromInt32(int32(port))}}
		}, nil), yes, api.ServingCurrent},
		"mounts-nothing": {with(serves("mounts-nothing"), nil, func(p *corev1.Pod) {
			p.Spec.Volumes[0].Secret.SecretName = "something-else"
		}), no, api.ServingNoConsumers},
		"mounts-the-ca": {with(serves("mounts-the-ca"), nil, func(p *corev1.Pod) {
			p.Spec.Volumes[0].Secret.Items = []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}
		}), no, api.ServingNoConsumers},

		"expired":    {host{at: serve(t, at(), older).at}, no, api.ServingStale},
		"distrusted": {host{at: serve(t, at(), distrusted.issue(t, time.Now().Add(-time.Hour), "distrusted."+ns+".svc")).at}, no, api.ServingStale},
		"foreign":    {host{at: serve(t, at(), other.issue(t, time.Now(), "foreign."+ns+".svc")).at}, no, api.ServingForeign},
		"neighbour":  {host{at: serve(t, at(), pairOf("current")).at}, no, api.ServingForeign}, // the certificate of another Secret
		"plain":      {plainHTTP(t, at()), no, api.ServingPlaintext},
		"garbage": {answers(func(c net.Conn) {
			_, _ = c.Write([]byte("\xff\xfe garbage, and a lot of it"))
			_, _ = c.Read(make([]byte, 4096))
		}), no, api.ServingPlaintext},
		"closed":   {host{at: at()}, unknown, api.ServingUnreachable},
		"silent":   {answers(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), unknown, api.ServingUnreachable},
		"hangs-up": {answers(func(net.Conn) {}), unknown, api.ServingUnreachable},

		"outside":     {host{at: netip.MustParseAddrPort("192.0.2.7:443")}, unknown, api.ServingNotVerified},
		"unspecified": {host{at: netip.MustParseAddrPort("0.0.0.0:443")}, unknown, api.ServingNotVerified},
		"metadata":    {host{at: netip.MustParseAddrPort("169.254.169.254:443")}, unknown, api.ServingNotVerified},
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
	probes := func(result string) float64 {
		n, _ := r.metric(t, "servingcert_probes_total", map[string]string{"result": result})
		return n
	}
	for _, result := range []string{"tls", "plaintext", "refused", "timeout", "first_words"} {
		assert.Positive(t, probes(result), result)
	}
	for _, reason := range []string{"outside_cidr", "unspecified", "link_local"} {
		n, _ := r.metric(t, "servingcert_visits_refused_total", map[string]string{"reason": reason})
		assert.Positive(t, n, reason)
	}
	for _, e := range events(t, ns, "ServesOldCertificate") {
		assert.Contains(t, []string{"expired", "distrusted"}, e.Regarding.Name, "what is foreign or silent is nobody's fault")
	}
}

// A pod that is being deleted is nobody's consumer, however ready it is.
func TestAPodThatIsBeingDeleted(t *testing.T) {
	r := startRotator(t, func(c *rotatorConfig) {
		c.Serving.PropagationTime = time.Hour // as long as a look may take
		c.Serving.Interval = time.Hour        // nobody is dialled but for the new certificate: one dial may be on its way
	})
	s := newShop(t, 2)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	change := s.pods[0].DeepCopy()
	change.Finalizers = []string{"example.com/hold"}
	require.NoError(t, admin.Patch(t.Context(), change, client.MergeFrom(s.pods[0])))
	t.Cleanup(func() {
		held := change.DeepCopy()
		held.Finalizers = nil
		assert.NoError(t, client.IgnoreNotFound(admin.Patch(context.Background(), held, client.MergeFrom(change))))
	})
	require.NoError(t, admin.Delete(t.Context(), change, client.GracePeriodSeconds(0)))
	r.counts(t, s.ns, map[string]int{"current": 1})
	dials := s.servers[0].dials.Load()
	renewed := s.renew(t)
	becomes(t, s.svc, metav1.ConditionFalse, api.ServingPropagating)
	s.servers[1].pair.Store(renewed)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.Equal(t, dials, s.servers[0].dials.Load())
}

// Fifty Services over one pod are dialled once, and each says what was found.
func TestFiftyServicesOverOnePod(t *testing.T) {
	const n = 50
	startRotator(t, func(c *rotatorConfig) { c.Serving.Interval = time.Hour })
	ns, port := newNamespace(t), process.PortFor(t, "")
	pair := ours.issue(t, time.Now().Add(-10*time.Minute), "web."+ns+".svc")
	server := serve(t, netip.AddrPortFrom(nextAddress(), port), pair)
	pod := newPod(t, ns, "web-abc-1", "web")
	var services []*corev1.Service
	for i := range n {
		services = append(services, newService(t, ns, fmt.Sprintf("web-%02d", i), intstr.FromInt32(int32(port)), func(svc *corev1.Service) {
			svc.Annotations[api.AnnotationSecretName], svc.Spec.Selector = "web-tls", map[string]string{"app": "web"}
		}))
	}
	for _, svc := range services {
		issued(t, svc, pair)
	}
	isReady(t, pod, server.at.Addr(), true)
	for _, svc := range services {
		becomes(t, svc, metav1.ConditionTrue, api.ServingCurrent)
	}
	assert.LessOrEqual(t, server.dials.Load(), int32(2), "one, or two if a Service came later")
}

// What a server shows while the certificate changes is compared with what is to be
// served when it arrives.
func TestTheCertificateChangesWhileAPodIsDialled(t *testing.T) {
	startRotator(t)
	ns, port := newNamespace(t), process.PortFor(t, "")
	svc := newService(t, ns, "web", intstr.FromInt32(int32(port)))
	old := ours.issue(t, time.Now().Add(-10*time.Minute), name(svc))
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
	renewed := ours.issue(t, time.Now(), name(svc))
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

// Services that share a Secret are judged each by its own ports and pods: the one by its pods, which
// go, and the other by a port that it gets.
func TestEachServiceOfASecretIsJudgedByItself(t *testing.T) {
	startRotator(t)
	ns, port := newNamespace(t), process.PortFor(t, "")
	pair := ours.issue(t, time.Now().Add(-10*time.Minute), "web."+ns+".svc")
	server := serve(t, netip.AddrPortFrom(nextAddress(), port), pair)
	share := func(svc *corev1.Service) { svc.Annotations[api.AnnotationSecretName] = "web-tls" }
	web, db := newService(t, ns, "web", intstr.FromInt32(int32(port)), share), newService(t, ns, "db", intstr.FromInt32(int32(port)), share)
	issued(t, web, pair)
	issued(t, db, pair)
	ofWeb := newPod(t, ns, "web-abc-1", "web")
	ofDB := newPod(t, ns, "db-abc-1", "web", func(p *corev1.Pod) { p.Labels["app"] = "db" })
	isReady(t, ofWeb, server.at.Addr(), true)
	isReady(t, ofDB, server.at.Addr(), true)
	becomes(t, web, metav1.ConditionTrue, api.ServingCurrent)
	becomes(t, db, metav1.ConditionTrue, api.ServingCurrent)

	remove(t, ofDB)
	becomes(t, db, metav1.ConditionFalse, api.ServingNoConsumers)

	change(t, web, func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "b", Port: 444, TargetPort: intstr.FromString("sc-tls-99999")})
	})
	c := becomes(t, web, metav1.ConditionFalse, api.ServingNoPort)
	assert.Contains(t, c.Message, "no ready pod of this Service has targetPort sc-tls-99999: must be sc-tls-PORT or sc-any-PORT")
	change(t, web, func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	becomes(t, web, metav1.ConditionTrue, api.ServingCurrent)
}
