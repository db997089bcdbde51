package consumers

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator"
)

const (
	soon = 60 * time.Second      // far longer than anything here takes on two busy cores
	tick = 20 * time.Millisecond // between two looks
)

type rotatorConfig = rotator.Config

// eventually waits until what is nil. The last error tells what was missing.
func eventually(t *testing.T, what func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(tick) {
		if err = what(); err == nil {
			return
		}
	}
	require.NoError(t, err, "after %s", soon)
}

// authority signs leaves.
type authority struct {
	root *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes a CA, with a name as servingcert gives it or another.
func newAuthority(generation int, named bool) authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		panic(err)
	}
	now := time.Now()
	root, err := pki.NewRoot(key, generation, pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}, now.Add(-240*time.Hour), now.Add(10_000*time.Hour))
	if err != nil {
		panic(err)
	}
	if !named {
		template := *root
		template.Subject.CommonName, template.RawSubject = "Example Corporation", nil
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		if root, err = x509.ParseCertificate(der); err != nil {
			panic(err)
		}
	}
	return authority{root, key}
}

func (a authority) bundle() []byte { return pki.NewBundle(a.root).PEM() }

// issue returns a pair for the names, valid for an hour from issued.
func (a authority) issue(t testing.TB, issued time.Time, names ...string) *tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	serial, err := pki.NewSerial()
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, DNSNames: names, NotBefore: pki.NotBefore(issued), NotAfter: issued.Add(time.Hour).Truncate(time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.root, key.Public(), a.key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
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
}

// listen answers connections with what is done to them, until the test ends.
func listen(t testing.TB, at netip.AddrPort, answer func(net.Conn)) *server {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err)
	s := &server{at: netip.MustParseAddrPort(l.Addr().String())}
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.dials.Add(1)
			answering.Go(func() {
				defer func() { _ = conn.Close() }()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		answering.Wait()
	})
	return s
}

// serve does TLS with the pair that the server has at the moment.
func serve(t testing.TB, at netip.AddrPort, pair *tls.Certificate, changes ...func(*tls.Config)) *server {
	t.Helper()
	var s *server
	cfg := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }}
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

// freePort returns one that is free on every address.
func freePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// running is a rotator.
type running struct {
	registry *prometheus.Registry
	stop     func()
}

// startRotator runs one until the test ends, or stop is called; it is fast.
func startRotator(t testing.TB, changes ...func(*rotator.Config)) *running {
	t.Helper()
	r := &running{registry: prometheus.NewRegistry()}
	cfg := rotator.DefaultConfig()
	cfg.Now, cfg.Metrics = time.Now, r.registry
	cfg.Choose = func(map[string]string, string, bool, []*corev1.Service) rotator.Choice { return rotator.Choice{} }
	cfg.Delay, cfg.ProbePause, cfg.PropagationTime, cfg.VerifyInterval, cfg.ProbeTimeout = 20*time.Millisecond, 100*time.Millisecond, 2*time.Second, 3*time.Second, time.Second
	for _, change := range changes {
		change(&cfg)
	}
	scheme := runtime.NewScheme()
	require.NoError(t, rotator.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "servingcert-rotator", LeaderElectionNamespace: system, LeaderElectionReleaseOnCancel: true,
	})
	require.NoError(t, err)
	require.NoError(t, rotator.Setup(mgr, cfg))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(r.stop)
	return r
}

// metric returns the sum of the series with all of these labels, and whether there
// is any; of a histogram the number of observations.
func (r *running) metric(t *testing.T, name string, labels map[string]string) (sum float64, found bool) {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := func(l *dto.LabelPair) bool { return labels[l.GetName()] == l.GetValue() && l.GetValue() != "" }
			matching := 0
			for _, l := range m.GetLabel() {
				if has(l) {
					matching++
				}
			}
			if f.GetName() == name && matching == len(labels) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				found = true
			}
		}
	}
	return sum, found
}

// counts waits until the namespace has these numbers of consumers by state.
func (r *running) counts(t *testing.T, namespace string, want map[string]int) {
	t.Helper()
	eventually(t, func() error {
		got := map[string]int{}
		for _, state := range []string{"current", "propagating", "stale", "foreign", "plaintext", "unreachable", "pending", "not_ready", "no_port"} {
			if n, ok := r.metric(t, "servingcert_consumers", map[string]string{"namespace": namespace, "state": state}); ok {
				got[state] = int(n)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("consumers of %s are %v, want %v", namespace, got, want)
		}
		return nil
	})
}

func newNamespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	require.NoError(t, admin.Create(context.Background(), ns))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(context.Background(), account)), "pods need one")
	return ns.Name
}

// create makes an object, and deletes it when the test ends.
func create(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoError(t, admin.Create(context.Background(), obj))
	t.Cleanup(func() { remove(t, obj) })
}

func remove(t testing.TB, obj client.Object) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), obj, client.GracePeriodSeconds(0))))
}

// newService makes one that selects app=NAME, asks for Secret NAME-tls and leads
// to the port.
func newService(t testing.TB, namespace, name string, target intstr.IntOrString, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: target}},
		},
	}
	for _, change := range changes {
		change(svc)
	}
	create(t, svc)
	return svc
}

// issued says of a Service what the signer does.
func issued(t testing.TB, svc *corev1.Service, pair *tls.Certificate) {
	t.Helper()
	setReady(t, svc, metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(),
		Message: fmt.Sprintf("Secret %q: names (request abc, %s)", svc.Annotations[api.AnnotationSecretName], api.LeafInMessage(fingerprint(pair))),
	})
}

func setReady(t testing.TB, svc *corev1.Service, condition metav1.Condition) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{condition}}})
	require.NoError(t, err)
	require.NoError(t, admin.Status().Patch(context.Background(), svc.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)))
}

// newPod makes one of a Deployment of that name, which does not exist, that mounts
// Secret NAME-tls and has label app=NAME.
func newPod(t testing.TB, namespace, name, workload string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": workload, "pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/x", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: workload + "-tls"}}}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	create(t, pod)
	return pod
}

// isReady says of a pod what the kubelet does.
func isReady(t testing.TB, pod *corev1.Pod, ip netip.Addr, yes bool) {
	t.Helper()
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if yes {
		condition.Status = corev1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": ip.String(), "podIPs": []corev1.PodIP{{IP: ip.String()}}, "conditions": []corev1.PodCondition{condition},
	}})
	require.NoError(t, err)
	require.NoError(t, admin.Status().Patch(context.Background(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)))
}

// serving returns the Service's condition, nil if it has none.
func serving(t testing.TB, svc *corev1.Service) *metav1.Condition {
	t.Helper()
	var now corev1.Service
	require.NoError(t, admin.Get(context.Background(), client.ObjectKeyFromObject(svc), &now))
	return api.Condition(&now, api.ConditionServing)
}

// becomes waits until the condition has the status and the reason.
func becomes(t *testing.T, svc *corev1.Service, status metav1.ConditionStatus, reason string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	eventually(t, func() error {
		if c = serving(t, svc); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s of Service %s is %+v, want %s %s", api.ConditionServing, svc.Name, c, status, reason)
		}
		return nil
	})
	return c
}

// history is what a Service's condition said, one entry for each update of it.
type history struct {
	mu   sync.Mutex
	said []string
	last *metav1.Condition
}

// watchServing records every update of a Service from now on that is not the
// signer's.
func watchServing(t testing.TB, svc *corev1.Service) *history {
	t.Helper()
	h := &history{}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := admin.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(svc.Namespace), client.MatchingFields{"metadata.name": svc.Name})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if now, ok := e.Object.(*corev1.Service); ok {
				h.add(api.Condition(now, api.ConditionServing))
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		w.Stop()
		<-done
	})
	return h
}

func (h *history) add(c *metav1.Condition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c != nil && (h.last == nil || *h.last != *c) {
		h.said = append(h.said, string(c.Status)+" "+c.Reason)
		h.last = c
	}
}

func (h *history) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// events returns what was told in the namespace under the reason.
func events(t testing.TB, namespace, reason string) []eventsv1.Event {
	t.Helper()
	var list eventsv1.EventList
	require.NoError(t, admin.List(context.Background(), &list, client.InNamespace(namespace)))
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason != reason })
}

// change reads the Service, changes it and updates it, again if someone else was
// quicker.
func change(t *testing.T, svc *corev1.Service, how func(*corev1.Service)) {
	t.Helper()
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
			return err
		}
		how(svc)
		return admin.Update(t.Context(), svc)
	})
}
