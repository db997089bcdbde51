package consumers

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	proxyserver "github.com/servingcert/servingcert/pkg/proxy/server"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// bothPort is a port for TLS and plaintext.
const bothPort = "sc-any-8080"

// guardedShop is a Service with one pod, whose proxy is the real one. The test is its kubelet.
type guardedShop struct {
	*shop
	proxy *proxyserver.Server
	file  string // with the clients that it admits
}

func newGuardedShop(t *testing.T) *guardedShop {
	t.Helper()
	s := &guardedShop{shop: &shop{ns: harness.NewNamespace(t, admin, "shop-", true)}, file: filepath.Join(t.TempDir(), "clients")}
	s.svc = newService(t, s.ns, "web", intstr.FromString(bothPort))
	s.pair = issue(t, ours, time.Now().Add(-10*time.Minute), name(s.svc))
	port := process.PortFor(t, "")
	s.proxy = runProxy(t, s, port)
	pod := newPod(t, s.ns, "web-abc-0000", "web", hasProxy(bothPort+"=open"), func(p *corev1.Pod) {
		c := &p.Spec.InitContainers[0]
		c.Args[0] = fmt.Sprintf("--listen=%s=%d:8080", bothPort, port)
		c.Ports = []corev1.ContainerPort{{Name: bothPort, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}}
	})
	isReady(t, pod, nextAddress(), true)
	issued(t, s.svc, s.pair)
	s.pods = []*corev1.Pod{pod}
	return s
}

// runProxy runs a proxy on the port, until the test ends.
func runProxy(t *testing.T, s *guardedShop, port uint16) *proxyserver.Server {
	t.Helper()
	dir := t.TempDir()
	key, err := pki.EncodeKey(s.pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	for file, content := range map[string][]byte{"tls.crt": pki.EncodeCertificates(s.pair.Leaf), "tls.key": key, api.BundleKey: clientCABundle(t)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
	}
	s.mounts(t, bothPort+"=open")
	limits := proxy.DefaultLimits()
	limits.MaxConnections = 100
	p := proxyserver.New(proxyserver.Config{
		Ports:   []proxy.Listen{{Name: bothPort, Port: port, Upstream: 8080, Plaintext: true}},
		CertDir: dir, ClientCAFile: filepath.Join(dir, api.BundleKey), ClientsFile: s.file,
		Upstream: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Limits: limits, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

// clientCABundle publishes a CA for clients, as the signer does, and returns its bundle.
func clientCABundle(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, pki.ForClients("example.com"), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.ClientCAStatusName},
		Data:       map[string]string{api.BundleKey: string(pki.EncodeCertificates(root))},
	})
	return pki.EncodeCertificates(root)
}

// mounts replaces the list of clients, as the kubelet does.
func (s *guardedShop) mounts(t *testing.T, list string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.file+".new", []byte(list), 0o600))
	require.NoError(t, os.Rename(s.file+".new", s.file))
}

// lists sets the Service's clients, and plays the kubelet.
func (s *guardedShop) lists(t *testing.T, clients string) {
	t.Helper()
	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { svc.Annotations[api.AnnotationClients] = clients })
	admits(t, s.pods[0], bothPort+"="+clients)
	s.mounts(t, bothPort+"="+clients)
}

// guarded waits until condition Guarded has the status and the reason.
func guarded(t *testing.T, svc *corev1.Service, status metav1.ConditionStatus, reason string) (message string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var now corev1.Service
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), &now); err != nil {
			return err
		}
		c := api.Condition(&now, api.ConditionGuarded)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s is %+v, want %s %s", api.ConditionGuarded, c, status, reason)
		}
		message = c.Message
		return nil
	})
	return message
}

// A guarded port was seen to refuse strangers, or the condition is not True. The proxy counts none of the rotator's dials as a
// caller.
func TestStrangersAreSeenRefused(t *testing.T) {
	kubectl := harness.Kubectl(t)
	r := startRotator(t, func(c *rotator.Config) { c.KubeletSync.Enabled = false })
	s := newGuardedShop(t)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	s.lists(t, "shop/cart")
	guarded(t, s.svc, metav1.ConditionTrue, api.GuardedRefusing)
	counts := func(state string) {
		t.Helper()
		harness.Eventually(t, func() error {
			metrics, err := process.Gather(r.Registry)
			if n := metrics.Sum("servingcert_guarded_pods", "namespace", s.ns, "state", state); err == nil && n != 1 {
				err = fmt.Errorf("%v pods in state %s", n, state)
			}
			return err
		})
	}
	counts("refuses")

	s.lists(t, "shop/cart,watch")
	guarded(t, s.svc, metav1.ConditionFalse, api.GuardedWatch)
	harness.Eventually(t, func() error {
		if ports := s.clients(t).Guarded; len(ports) != 1 || !ports[0].Watch {
			return fmt.Errorf("the proxy guards %+v", ports)
		}
		return nil
	})
	before := s.probes(t)
	harness.Eventually(t, func() error {
		if s.probes(t) == before {
			return errors.New("the rotator has not dialled the port that watches")
		}
		return nil
	})
	s.lists(t, "shop/cart")
	out, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", kubeconfig, "-n", s.ns, "wait", "--for=condition="+api.ConditionGuarded, "--timeout="+soon.String(), "service/web").CombinedOutput()
	require.NoError(t, err, string(out))
	guarded(t, s.svc, metav1.ConditionTrue, api.GuardedRefusing)
	s.verifies(t, "refused", "refuses clients that are not listed")
	assert.Empty(t, s.clients(t).Callers)

	s.mounts(t, bothPort+"=open") // what a broken proxy would do
	message := guarded(t, s.svc, metav1.ConditionFalse, api.GuardedAdmits)
	assert.Contains(t, message, fmt.Sprintf("port %d of pod web-abc-0000 admitted a client without a certificate", s.pods[0].Spec.InitContainers[0].Ports[0].ContainerPort))
	counts("admits")
	s.verifies(t, "admitted", "admitted a client without a certificate, although the Service lists its clients")
	s.mounts(t, bothPort+"=shop/cart")
	guarded(t, s.svc, metav1.ConditionTrue, api.GuardedRefusing)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)

	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromInt32(8443) })
	guarded(t, s.svc, metav1.ConditionFalse, api.GuardedNoProxy)
	harness.Change(t, admin, s.svc, func(svc *corev1.Service) { delete(svc.Annotations, api.AnnotationClients) })
	harness.Eventually(t, func() error {
		var now corev1.Service
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(s.svc), &now); err != nil {
			return err
		}
		if c := api.Condition(&now, api.ConditionGuarded); c != nil {
			return fmt.Errorf("still %+v", c)
		}
		return nil
	})
}

// verifies requires what the plugin sees, with dials of its own.
func (s *guardedShop) verifies(t *testing.T, strangers, finding string) {
	t.Helper()
	run := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), plugin, append([]string{"verify", "-o", "json", "-n", s.ns, "--kubeconfig", kubeconfig}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output() // no signer and no CA: other checks fail
		var exit *exec.ExitError
		require.True(t, err == nil || errors.As(err, &exit), "%v", err)
		return out
	}
	var report struct {
		Ports []struct {
			Strangers string   `json:"strangers"`
			Problems  []string `json:"problems"`
		} `json:"ports"`
	}
	require.NoError(t, json.Unmarshal(run("--any", "--direct"), &report))
	require.Len(t, report.Ports, 1)
	assert.Equal(t, strangers, report.Ports[0].Strangers)
	assert.Equal(t, strangers == "admitted", slices.Contains(report.Ports[0].Problems, "strangers"))
	address := fmt.Sprintf("127.0.0.1:%d", s.pods[0].Spec.InitContainers[0].Ports[0].ContainerPort)
	assert.Contains(t, string(run("web", "--address", address)), address+": "+finding)
}

// get returns what the proxy answers at the path.
func (s *guardedShop) get(t *testing.T, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.proxy.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Body.String()
}

// clients is the proxy's list.
func (s *guardedShop) clients(t *testing.T) (list proxy.ClientList) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/clients")), &list))
	return list
}

// probes returns the proxy's metric of what is no caller.
func (s *guardedShop) probes(t *testing.T) string {
	t.Helper()
	_, line, _ := strings.Cut(s.get(t, "/metrics"), `reason="probe"} `)
	line, _, _ = strings.Cut(line, "\n")
	return line
}
