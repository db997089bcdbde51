package succession

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// traffic is servers and clients of a namespace: of each Service one server that
// reloads its Secret when that changes and one that never does, and clients that
// mount the namespace's bundle at once, late, and never again. All the time they shake
// hands: whenever a server or a client has changed, or the clock was moved, and every
// repeat otherwise.
type traffic struct {
	now    func() time.Time
	mounts mounts
	looked time.Time // when mounts were updated last
	// standing is held by a handshake, and by who moves the clock: on a busy machine
	// hours passed during one, and a certificate came out of the client's future. And by who
	// gives to servers and clients what came while he stood still himself.
	standing sync.RWMutex

	mu         sync.Mutex
	servers    []*server
	clients    []*consumer
	handshakes atomic.Int64
	failures   []error
	away       atomic.Bool // the API server is: nothing can be reloaded

	rounds  sync.Mutex // guards met, and is held by a round
	met     map[pair]met
	stopped chan struct{}
	done    sync.WaitGroup
}

type server struct {
	name    string // that clients ask for
	address string
	reloads bool
	secret  string
	version string // of the Secret
	pair    atomic.Pointer[tls.Certificate]
}

// pair is one that shakes hands.
type pair struct {
	server *server
	client *consumer
}

// met is what both had when they last shook hands, and when that was by their clock.
type met struct {
	now   time.Time
	pair  *tls.Certificate
	roots *trusted
}

// What has changed of Secrets and bundle is taken up every look. A handshake of which nothing has changed is
// repeated every repeat: at once, as fast as they go, they took more than a core.
const (
	look   = 50 * time.Millisecond
	repeat = 2 * time.Second
)

type consumer struct {
	name  string
	late  time.Duration // from the ConfigMap to the file; negative: never again
	roots atomic.Pointer[trusted]
	holds string    // the bundle of roots
	seen  string    // the ConfigMap's bundle
	since time.Time // the last look that did not see it yet
}

// trusted are the roots of a client, and when it is let down: no chain leads to a
// root in the last two hours of its life.
type trusted struct {
	pool  *x509.CertPool
	until time.Time
}

func trusting(bundle string) (*trusted, error) {
	certs, err := pki.ParseCertificates([]byte(bundle))
	if err != nil {
		return nil, err
	}
	out := &trusted{pool: x509.NewCertPool()}
	for _, c := range certs {
		out.pool.AddCert(c)
		if c.NotAfter.After(out.until) {
			out.until = c.NotAfter
		}
	}
	out.until = out.until.Add(-2 * time.Hour)
	return out, nil
}

// makeShop makes an opted-in namespace with annotated Services, and waits for
// their Secrets and the bundle.
func makeShop(t *scene, namespace string, services int, annotations map[string]string) {
	t.Helper()
	ctx := t.Context()
	_, err := t.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range services {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Namespace: namespace, Annotations: map[string]string{}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		}
		for key, value := range annotations {
			svc.Annotations[key] = value
		}
		svc.Annotations[api.AnnotationSecretName] = secretOf(i)
		_, err := t.admin.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		for i := range services {
			if _, err := t.admin.CoreV1().Secrets(namespace).Get(ctx, secretOf(i), metav1.GetOptions{}); err != nil {
				return false
			}
		}
		_, err := t.admin.CoreV1().ConfigMaps(namespace).Get(ctx, api.BundleName, metav1.GetOptions{})
		return err == nil
	}, waitFor, tick, "Secrets and bundle of %s", namespace)
}

func secretOf(i int) string { return fmt.Sprintf("web-%d-tls", i) }

// startTraffic begins the handshakes, with the clients that are named or, if none
// is, with all; stop ends them.
func startTraffic(t *scene, namespace string, services int, now func() time.Time, clients ...string) *traffic {
	t.Helper()
	tr := &traffic{
		now: now, mounts: mounts{admin: t.admin, namespace: namespace}, met: map[pair]met{}, stopped: make(chan struct{}),
	}
	for i := range services {
		for _, reloads := range []bool{true, false} {
			s := &server{name: fmt.Sprintf("web-%d.%s.svc", i, namespace), reloads: reloads, secret: secretOf(i)}
			tr.servers = append(tr.servers, s)
		}
	}
	require.NoError(t, tr.mounts.open(context.Background()))
	require.NoError(t, tr.load(true))
	for _, s := range tr.servers {
		s.listen(t)
	}
	for name, late := range map[string]time.Duration{"prompt": 0, "late": time.Second, "of old": -1} {
		if len(clients) == 0 || slices.Contains(clients, name) {
			tr.clients = append(tr.clients, &consumer{name: name, late: late})
		}
	}
	require.NoError(t, tr.refresh(t.Context()))
	tr.done.Go(func() {
		defer tr.mounts.close()
		for tr.goesOn(look) {
			away := tr.away.Load()
			if err := tr.refresh(context.Background()); err != nil && !away && !tr.away.Load() {
				tr.fail(err)
			}
		}
	})
	tr.done.Go(func() {
		for tr.goesOn(look / 5) {
			tr.round(false)
		}
	})
	t.Cleanup(tr.stop)
	return tr
}

func (tr *traffic) goesOn(pause time.Duration) bool {
	select {
	case <-tr.stopped:
		return false
	case <-time.After(pause):
		return true
	}
}

func (tr *traffic) stop() {
	tr.mu.Lock()
	select {
	case <-tr.stopped:
	default:
		close(tr.stopped)
	}
	tr.mu.Unlock()
	tr.done.Wait()
}

func (tr *traffic) fail(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.failures = append(tr.failures, err)
}

// refresh does what kubelets and reloading servers do.
func (tr *traffic) refresh(ctx context.Context) error {
	looks, before := time.Now(), tr.looked
	if err := tr.mounts.update(ctx); err != nil {
		return err
	}
	tr.looked = looks
	tr.standing.Lock()
	defer tr.standing.Unlock()
	if tr.mounts.bundle != nil { // which is distributed before anything is signed
		if err := tr.takeUp(tr.mounts.bundle.Data[api.BundleKey], before); err != nil {
			return err
		}
	}
	if err := tr.load(false); err != nil {
		return err
	}
	if tr.mounts.bundle == nil {
		return fmt.Errorf("ConfigMap %s: it is not there", api.BundleName)
	}
	return nil
}

// takeUp gives the bundle to the clients, each as late as it is. It came after the last look before.
func (tr *traffic) takeUp(bundle string, before time.Time) error {
	for _, c := range tr.clients {
		if c.seen != bundle {
			c.seen, c.since = bundle, before
		}
		first := c.roots.Load() == nil
		if bundle != c.holds && (first || c.late >= 0 && time.Since(c.since) >= c.late) {
			roots, err := trusting(bundle)
			if err != nil {
				return err
			}
			c.roots.Store(roots)
			c.holds = bundle
		}
	}
	return nil
}

// load gives the Secrets to the servers that reload, at first to all.
func (tr *traffic) load(first bool) error {
	for _, s := range tr.servers {
		if !s.reloads && !first {
			continue
		}
		secret := tr.mounts.secrets[s.secret]
		if secret == nil {
			return fmt.Errorf("Secret %s: it is not there", s.secret)
		}
		if secret.ResourceVersion == s.version {
			continue
		}
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return fmt.Errorf("Secret %s: %w", s.secret, err)
		}
		s.pair.Store(&pair)
		s.version = secret.ResourceVersion
	}
	return nil
}

func (s *server) listen(t *scene) {
	t.Helper()
	l, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil },
	})
	require.NoError(t, err)
	s.address = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
}

// loaded reports whether the servers that reload serve nothing that is due at now.
func (tr *traffic) loaded(now time.Time) bool {
	return !slices.ContainsFunc(tr.servers, func(s *server) bool { return s.reloads && !now.Before(pki.RenewAt(s.pair.Load().Leaf)) })
}

// round is every client with every server: all of them, or those of which one has changed
// or that are to repeat. A server that never reloads is asked until its certificate has
// ended, and a client asks until its roots have.
func (tr *traffic) round(all bool) {
	tr.rounds.Lock()
	defer tr.rounds.Unlock()
	for _, s := range tr.servers {
		for _, c := range tr.clients {
			tr.handshake(s, c, all)
		}
	}
}

func (tr *traffic) handshake(s *server, c *consumer, always bool) {
	tr.standing.RLock()
	defer tr.standing.RUnlock()
	state := met{tr.now(), s.pair.Load(), c.roots.Load()}
	if !s.reloads && state.now.After(state.pair.Leaf.NotAfter) || !state.now.Before(state.roots.until) {
		return
	}
	last := tr.met[pair{s, c}]
	if !always && state.pair == last.pair && state.roots == last.roots && state.now.Sub(last.now) < repeat {
		return
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: waitFor}, "tcp4", s.address, &tls.Config{
		ServerName: s.name, RootCAs: state.roots.pool, Time: func() time.Time { return state.now },
		CurvePreferences: []tls.CurveID{tls.CurveP256}, // assembly: X25519 takes 15 times as long with the race detector
	})
	tr.handshakes.Add(1)
	tr.met[pair{s, c}] = state
	if err != nil {
		tr.fail(fmt.Errorf("%s: the client that is %s rejects %s (reloads: %v): %w", state.now.Format(time.RFC3339), c.name, s.name, s.reloads, err))
		return
	}
	_ = conn.Close()
}

// requireNoFailure has every pair shake hands once more, and then none may have
// failed.
func (tr *traffic) requireNoFailure(t *scene) {
	t.Helper()
	tr.round(true)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	require.NoError(t, errors.Join(tr.failures[:min(5, len(tr.failures))]...), "%d of %d handshakes failed", len(tr.failures), tr.handshakes.Load())
	t.Logf("%d handshakes between %d servers and %d clients, none failed", tr.handshakes.Load(), len(tr.servers), len(tr.clients))
}

// issuers are the subjects of those whose certificates the reloading servers have.
func (tr *traffic) issuers() []string {
	var names []string
	for _, s := range tr.servers {
		if name := s.pair.Load().Leaf.Issuer.CommonName; s.reloads && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
