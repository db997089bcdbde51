package hostsync

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/store"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/hosttest"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const (
	serverName = "web.shop.svc"
	long       = process.Soon // the deadline for conditions
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	m.Run()
}

// host is a host with one store, whose action makes a TLS server reload its files.
type host struct {
	t    *testing.T
	base string
	spec hostfiles.Store
	ca   rotatortest.CA

	mu       sync.Mutex
	ignores  bool   // the program ignores the action
	dies     string // fingerprint of the certificate with which it exits
	listener net.Listener
}

// newHost returns a host whose program reloads before its action ends, or after it if timeout is long.
func newHost(t *testing.T, timeout time.Duration) *host {
	h := &host{t: t, base: t.TempDir(), ca: rotatortest.NewCA(t, 1, time.Now())}
	fifo := func(name string) *os.File {
		require.NoError(t, unix.Mkfifo(h.at(name), 0o600))
		f, err := os.OpenFile(h.at(name), os.O_RDWR, 0)
		require.NoError(t, err)
		return f
	}
	asked, answer := fifo("asked"), fifo("answer")
	// A dedicated address: no other process takes the port while the program does not listen.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.1:0", 1+os.Getpid()%250, os.Getpid()/250%250))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	address := l.Addr().String()
	h.spec = hostfiles.Store{
		Name: "web", Kind: hostfiles.Pair, From: h.at("from"), Mode: 0o600, UID: -1, GID: -1,
		Check:  &hostfiles.Check{Address: address, ServerName: serverName, Timeout: timeout},
		Action: hostfiles.Action{Exec: []string{"/bin/sh", "-c", `echo "$SERVINGCERT_STORE" >>"$0"; echo >"$1"; read _ <"$2"`, h.at("log"), asked.Name(), answer.Name()}, Timeout: long},
	}
	var running sync.WaitGroup
	running.Go(func() {
		for lines := bufio.NewScanner(asked); lines.Scan(); {
			if timeout == long {
				_, _ = answer.WriteString("ok\n")
				h.reload(address)
				continue
			}
			h.reload(address)
			_, _ = answer.WriteString("ok\n")
		}
	})
	t.Cleanup(func() {
		_ = asked.Close()
		running.Wait()
		_ = answer.Close()
		h.stop()
	})
	return h
}

func (h *host) at(file string) string { return filepath.Join(h.base, file) }

func (h *host) stop() {
	if h.listener != nil {
		_ = h.listener.Close()
		h.listener = nil
	}
}

// reload restarts the program's listener with the certificate of the store.
func (h *host) reload(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ignores {
		return
	}
	h.stop()
	current := h.at("stores/web/current/")
	pair, err := tls.LoadX509KeyPair(current+"/tls.crt", current+"/tls.key")
	if !assert.NoError(h.t, err) || pki.Fingerprint(pair.Leaf) == h.dies {
		return
	}
	if h.listener, err = net.Listen("tcp", address); !assert.NoError(h.t, err) {
		return
	}
	go func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).HandshakeContext(h.t.Context())
				_ = c.Close()
			}()
		}
	}(h.listener)
}

func (h *host) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// renew puts a new certificate into the source, and returns its content.
func (h *host) renew() *hostfiles.Content {
	files := hosttest.Files(h.t, h.ca, h.ca.Issue(h.t, time.Now(), serverName))
	c, err := hostfiles.Read(&h.spec, files, nil)
	require.NoError(h.t, err)
	hosttest.Write(h.t, h.spec.From, files)
	return c
}

func (h *host) syncer(once bool) *Syncer {
	return New(Config{
		Stores: []hostfiles.Store{h.spec}, Root: h.at("stores"), Host: "node", Once: once, Pace: time.Nanosecond, Clock: time.Now,
		Log: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	})
}

// once updates the store as hostsync --once does.
func (h *host) once() *Syncer {
	s := h.syncer(true)
	require.NoError(h.t, s.Run(h.t.Context()))
	return s
}

// renewed has the program serve a new certificate, which may take long, whatever the timeout of what follows.
func (h *host) renewed() *hostfiles.Content {
	timeout := h.spec.Check.Timeout
	h.spec.Check.Timeout = long
	c := h.renew()
	h.becomes(h.once(), hostfiles.Current, c)
	h.spec.Check.Timeout = timeout
	return c
}

// run maintains the store until end is called.
func (h *host) run() (s *Syncer, end func()) {
	s = h.syncer(false)
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		require.NoError(h.t, <-done)
	}
}

// becomes waits until the store has the reason and the address serves the certificate.
func (h *host) becomes(s *Syncer, reason hostfiles.Reason, serves *hostfiles.Content) {
	h.t.Helper()
	require.EventuallyWithT(h.t, func(c *assert.CollectT) {
		status := s.keepers[0].read()
		assert.Equal(c, reason, status.Reason)
		if reason == hostfiles.Current { // the previous certificate had this reason too
			assert.Contains(c, status.Message, serves.Fingerprint[:8])
		}
		assert.Equal(c, serves.Fingerprint, observe(h.t.Context(), h.spec.Check).Fingerprint)
	}, long, 10*time.Millisecond)
}

func (h *host) holds(c *hostfiles.Content) {
	h.t.Helper()
	data, err := os.ReadFile(h.at("stores/web/current/tls.crt"))
	require.NoError(h.t, err)
	require.Equal(h.t, string(c.Files[hostfiles.CertFile]), string(data))
}

// actions returns the number of runs of the action.
func (h *host) actions() int {
	data, err := os.ReadFile(h.at("log"))
	if err != nil {
		require.ErrorIs(h.t, err, os.ErrNotExist)
	}
	return strings.Count(string(data), "web\n")
}

// TestObserveRequiresTheProofOfTheKey: certificates are public, and anyone may own the port while the program is down.
func TestObserveRequiresTheProofOfTheKey(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, time.Now())
	pair, other := ca.Issue(t, time.Now(), serverName), ca.Issue(t, time.Now(), serverName)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, auth := range []tls.ClientAuthType{tls.NoClientCert, tls.RequireAnyClientCert} {
			cfg := &tls.Config{MaxVersion: version, ClientAuth: auth, Certificates: []tls.Certificate{pair}}
			served := func() hostfiles.Served {
				at := rotatortest.Accept(t, "127.0.0.1", rotatortest.Handshakes(cfg))
				return observe(t.Context(), &hostfiles.Check{Address: at.String(), ServerName: serverName})
			}
			assert.Equal(t, hostfiles.Served{Fingerprint: pki.Fingerprint(pair.Leaf)}, served(), "%x %s", version, auth)
			cfg = &tls.Config{MaxVersion: version, ClientAuth: auth, Certificates: []tls.Certificate{{Certificate: pair.Certificate, PrivateKey: other.PrivateKey}}}
			got := served()
			assert.Empty(t, got.Fingerprint, "%x %s", version, auth)
			assert.NotEmpty(t, got.Failure)
		}
	}
}

// TestChangesOfTheSourceAreCollected: an owner who changes the source all the time has it read ten times a second.
func TestChangesOfTheSourceAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{kick: make(chan struct{}, 1), clock: time.Now}
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case k.kick <- struct{}{}:
				}
			}
		}()
		looks := 0
		for ; ctx.Err() == nil && looks < 100; looks++ {
			k.wait(ctx, time.Time{})
		}
		assert.LessOrEqual(t, looks, 10)
	})
}

func get(s *Syncer, path string) (code int, text string) {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestASwitchActsAndIsServed(t *testing.T) {
	h := newHost(t, long)
	first := h.renew()
	s, end := h.run()
	defer end()
	h.becomes(s, hostfiles.Current, first)
	second := h.renew()
	h.becomes(s, hostfiles.Current, second)
	h.holds(second)
	assert.Equal(t, 2, h.actions())
	code, text := get(s, "/readyz")
	assert.Equal(t, "200 ok\n", fmt.Sprint(code, " ", text))
	_, text = get(s, "/metrics")
	for _, line := range []string{
		`ready{store="web",reason="Current"} 1`, `switches_total{store="web"} 2`, `rollbacks_total{store="web"} 0`, `actions_total{store="web"} 2`,
		fmt.Sprintf(`leaf_not_after_timestamp_seconds{store="web"} %d`, second.NotAfter().Unix()),
	} {
		assert.Contains(t, text, "\nservingcert_host_store_"+line+"\n")
	}
}

// TestARepairedKeyIsInstalled: while the source has a key that is rejected, the store stays as it is.
func TestARepairedKeyIsInstalled(t *testing.T) {
	h := newHost(t, long)
	first := h.renew()
	s, end := h.run()
	defer end()
	h.becomes(s, hostfiles.Current, first)
	files := hosttest.Files(t, h.ca, h.ca.Issue(t, time.Now(), serverName))
	second, err := hostfiles.Read(&h.spec, files, nil)
	require.NoError(t, err)
	key := files.Key
	files.Key = bytes.Replace(key, []byte("KEY-----\n"), []byte("KEY-----\nProc-Type: 4,ENCRYPTED\n\n"), 1)
	hosttest.Write(t, h.spec.From, files)
	h.becomes(s, hostfiles.SourceMissing, first)
	h.holds(first)
	files.Key = key
	hosttest.Write(t, h.spec.From, files)
	h.becomes(s, hostfiles.Current, second)
	h.holds(second)
}

func TestAProgramThatDoesNotReloadIsStale(t *testing.T) {
	h := newHost(t, time.Second)
	first := h.renewed()
	h.set(func() { h.ignores = true })
	second := h.renew()
	s := h.once()
	h.becomes(s, hostfiles.Stale, first)
	h.holds(second)
	assert.Zero(t, s.keepers[0].read().Rollbacks)
	assert.Contains(t, s.NotReady(), "store web: Stale: "+h.spec.Check.Address+" still serves the previous certificate")
}

func TestAProgramThatDiesIsGivenItsLastCertificate(t *testing.T) {
	h := newHost(t, time.Second)
	first := h.renewed()
	s, end := h.run()
	h.becomes(s, hostfiles.Current, first)
	var bad *hostfiles.Content
	h.set(func() {
		bad = h.renew()
		h.dies = bad.Fingerprint
	})
	h.becomes(s, hostfiles.RolledBack, first)
	h.holds(first)
	assert.Equal(t, 3, h.actions(), "once for each switch")
	code, text := get(s, "/readyz")
	assert.Equal(t, 503, code)
	assert.Contains(t, text, "store web: RolledBack: rolled back to the previous certificate: "+h.spec.Check.Address+" served a certificate before the switch, but not the new one within 1s of")
	_, text = get(s, "/metrics")
	assert.Contains(t, text, `servingcert_host_store_rollbacks_total{store="web"} 1`)
	end()
	// Neither this process nor another one installs it again.
	again := h.once()
	h.becomes(again, hostfiles.RolledBack, first)
	assert.Equal(t, 3, h.actions())
	assert.Zero(t, again.keepers[0].read().Switches)
	h.renewed()
}

// hostsync resumes after a crash.
func TestAfterACrash(t *testing.T) {
	for title, crash := range map[string]func(*testing.T, *store.Store, *hostfiles.Content){
		"before the switch": func(*testing.T, *store.Store, *hostfiles.Content) {},
		"between switch and action": func(t *testing.T, st *store.Store, c *hostfiles.Content) {
			require.NoError(t, st.Install(c, false))
		},
	} {
		t.Run(title, func(t *testing.T) {
			h := newHost(t, long)
			first := h.renew()
			h.becomes(h.once(), hostfiles.Current, first)
			second := h.renew()
			st, err := store.Open(h.at("stores"), &h.spec, time.Now)
			require.NoError(t, err)
			require.NoError(t, st.Lock(t.Context(), nil))
			st.State = st.State.Begin(&h.spec, second, hostfiles.Served{Fingerprint: first.Fingerprint}, "", "", time.Now())
			require.NoError(t, st.Save())
			crash(t, st, second)
			st.Close()
			h.becomes(h.once(), hostfiles.Current, second)
			assert.Equal(t, 2, h.actions(), "once for each switch")
			h.once()
			assert.Equal(t, 2, h.actions())
		})
	}
}

// An action that was running when hostsync ended runs again.
func TestAnActionIsInterrupted(t *testing.T) {
	h := newHost(t, long)
	command := h.spec.Action.Exec
	h.spec.Action.Exec = []string{"/bin/sh", "-c", `echo "$SERVINGCERT_STORE" >>"$0"; sleep 600`, h.at("log")}
	first := h.renew()
	_, end := h.run()
	require.Eventually(t, func() bool { return h.actions() == 1 }, long, time.Millisecond)
	end()
	h.spec.Action.Exec = command
	h.becomes(h.once(), hostfiles.Current, first)
	assert.Equal(t, 2, h.actions())
}

func TestAStoreThatCannotBeKept(t *testing.T) {
	h := newHost(t, long)
	h.renew()
	st, err := store.Open(h.at("stores"), &h.spec, time.Now)
	require.NoError(t, err)
	require.NoError(t, st.Lock(t.Context(), nil))
	assert.Contains(t, h.once().NotReady(), "store web: Locked: ")
	st.Close()
	require.NoError(t, os.Chmod(h.at("stores/web"), 0o777))
	assert.Contains(t, h.once().NotReady(), "store web: CannotWrite: ")
	assert.Zero(t, h.actions())
}

// The success of an action is saved, also without a check.
func TestAnActionIsNotRepeated(t *testing.T) {
	h := newHost(t, time.Second)
	h.spec.Check = nil
	h.renew()
	for range 2 {
		assert.Empty(t, h.once().NotReady())
		assert.Equal(t, 1, h.actions())
	}
}
