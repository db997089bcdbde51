package consumers

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func bundleOfOurs() string { return string(pki.NewBundle(ours.Root).PEM()) }

// issue returns a pair for the names, valid for an hour from issued.
func issue(t testing.TB, ca rotatortest.CA, issued time.Time, names ...string) *tls.Certificate {
	t.Helper()
	pair := ca.Issue(t, issued, names...)
	return &pair
}

func fingerprint(pair *tls.Certificate) string { return pki.Fingerprint(pair.Leaf) }

var addresses atomic.Uint32

// nextAddress returns one of 127.5.0.0/16 that no other pod of this run has.
func nextAddress() netip.Addr {
	n := addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, 5, byte(n >> 8), byte(n)})
}

// server listens at an address, as a process in a pod does.
type server struct {
	at    netip.AddrPort
	pair  atomic.Pointer[tls.Certificate]
	dials atomic.Int32
	// woken, if it is set, chooses the pair in place of pair.
	woken atomic.Pointer[func() *tls.Certificate]
}

// listen answers connections with what is done to them, until the test ends.
func listen(t testing.TB, at netip.AddrPort, answer func(net.Conn)) *server {
	t.Helper()
	s := &server{}
	s.at = rotatortest.AcceptAt(t, at.String(), func(conn net.Conn) {
		s.dials.Add(1)
		answer(conn)
	})
	return s
}

// serve does TLS with the pair that the server has at the moment.
func serve(t testing.TB, at netip.AddrPort, pair *tls.Certificate, changes ...func(*tls.Config)) *server {
	t.Helper()
	var s *server
	cfg := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if choose := s.woken.Load(); choose != nil {
			return (*choose)(), nil
		}
		return s.pair.Load(), nil
	}}
	for _, change := range changes {
		change(cfg)
	}
	made := make(chan struct{})
	s = listen(t, at, func(conn net.Conn) {
		<-made
		if c := tls.Server(conn, cfg); c.Handshake() == nil {
			_, _ = c.Read(make([]byte, 1))
		}
	})
	s.pair.Store(pair)
	close(made)
	return s
}

// onceWoken has the server serve another pair once the pod's kubelet was woken. A pod that serves a
// new certificate before that is not woken.
func (s *server) onceWoken(pod *corev1.Pod, before, after *tls.Certificate) {
	choose := func() *tls.Certificate {
		now := &corev1.Pod{}
		err := admin.Get(context.Background(), client.ObjectKeyFromObject(pod), now)
		if _, woken := now.Annotations[api.AnnotationLeaf]; woken && err == nil {
			return after
		}
		return before
	}
	s.woken.Store(&choose)
}
