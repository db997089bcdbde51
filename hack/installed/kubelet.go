package installed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// runBy is a label of the pods that a kubelet runs.
const runBy, kubeletName = "run-by", "kubelet"

// Kubelet runs the pods of a tenant's Deployments: a server for each, with the certificate of its
// Service at that moment. It says that the pod is ready.
type Kubelet struct {
	*Tenant
	net       byte // second octet of the addresses
	onlyFirst bool // of each Deployment only the first pod runs, and is never ended

	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	pods   map[string]*Server // by name
	next   int                // address
}

// StartKubelet runs pods at addresses of 127.SECOND.0.0/16 until Close.
func (t *Tenant) StartKubelet(second byte, onlyFirst bool) *Kubelet {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Kubelet{Tenant: t, net: second, onlyFirst: onlyFirst, cancel: cancel, pods: map[string]*Server{}}
	k.done.Go(func() {
		for process.Sleep(ctx, 200*time.Millisecond) {
			_ = k.sync(ctx) // the next look tries again
		}
	})
	return k
}

// Close ends it, and what runs in the pods.
func (k *Kubelet) Close() {
	k.cancel()
	k.done.Wait()
	for _, s := range k.pods {
		s.Close()
	}
}

// sync starts and ends servers, so that there is one for each pod of a Deployment.
func (k *Kubelet) sync(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(k.Namespace), client.MatchingLabels{runBy: kubeletName}); err != nil {
		return err
	}
	there := map[string]bool{}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.Name] = true
		app := pod.Labels["app"]
		if k.find(pod.Name) == nil && (!k.onlyFirst || len(k.Serving(app)) == 0) {
			errs = append(errs, k.run(ctx, pod, app))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, s := range k.pods {
		if !there[name] && !k.onlyFirst {
			s.Close()
			delete(k.pods, name)
		}
	}
	return errors.Join(errs...)
}

func (k *Kubelet) run(ctx context.Context, pod *corev1.Pod, app string) error {
	if pod.Labels[api.LabelInjected] != "true" {
		return errors.New("pod " + pod.Name + " was not injected")
	}
	pair, err := k.pairOf(ctx, app)
	if err != nil {
		return err
	}
	s, err := Listen(ctx, Address(k.net, k.next), Port, pair)
	if err != nil {
		return err
	}
	if err := k.Runs(ctx, pod.Name, s.Address, true); err != nil {
		s.Close()
		return err
	}
	s.app = app
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod.Name] = s
	k.next++
	return nil
}

func (k *Kubelet) find(pod string) *Server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pods[pod]
}

// Serving returns the servers of a Service's pods.
func (k *Kubelet) Serving(app string) (out []*Server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.pods {
		if s.app == app {
			out = append(out, s)
		}
	}
	return out
}

// Reload has the pods of a Service serve its certificate of now.
func (k *Kubelet) Reload(ctx context.Context, app string) error {
	pair, err := k.pairOf(ctx, app)
	for _, s := range k.Serving(app) {
		if err == nil {
			s.pair.Store(pair)
		}
	}
	return err
}

// Runs says of a pod what a kubelet does: that it runs at an address, and whether it is ready.
func (t *Tenant) Runs(ctx context.Context, pod, at string, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	now := metav1.Now()
	return t.Merge(ctx, PodOf(pod, ""), map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: at, PodIPs: []corev1.PodIP{{IP: at}}, StartTime: &now,
		Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: status, LastTransitionTime: now},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: now},
		},
	}})
}

// pairOf reads the certificate and key that pods of a Service mount.
func (t *Tenant) pairOf(ctx context.Context, app string) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	if err := t.Get(ctx, t.Key(app+"-tls"), secret); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, errors.New("Secret " + secret.Name + " holds no certificate and its key")
	}
	return &pair, nil
}

// Server is what runs in a pod: it listens at an address of loopback and serves the certificate that
// it has at the moment.
type Server struct {
	app     string
	Address string // without the port
	pair    atomic.Pointer[tls.Certificate]
	Close   func() // ends it and its connections
}

// Address returns the n-th of 127.SECOND.0.0/16.
func Address(second byte, n int) string {
	n++
	return netip.AddrFrom4([4]byte{127, second, byte(n >> 8), byte(n)}).String()
}

// Listen starts a server. Without a pair it accepts, and never answers.
func Listen(ctx context.Context, at string, port int, pair *tls.Certificate) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(at, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(context.Background())
	s := &Server{Address: at, Close: func() { cancel(); _ = l.Close() }}
	s.pair.Store(pair)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(serving, conn)
		}
	}()
	return s, nil
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	pair := s.pair.Load()
	if pair == nil {
		_, _ = io.Copy(io.Discard, conn) // until the client gives up
		return
	}
	if c := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*pair}}); c.HandshakeContext(ctx) == nil {
		_, _ = c.Read(make([]byte, 1))
	}
}
