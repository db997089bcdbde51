package restart

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// port is where all pods listen.
const port = "18443"

// kubelet plays a node for all pods: each gets an address on loopback, serves the
// certificate that its Secret held when it started until it ends, and is ready.
type kubelet struct {
	ca   *authority
	done <-chan error

	mu      sync.Mutex
	secrets map[types.NamespacedName]tls.Certificate // what is mounted
	pods    map[types.UID]net.Listener
	broken  map[string]bool // namespaces whose new pods do not start
	next    int
	second  int // octet of the addresses
}

// authority signs as ours do.
type authority struct {
	key    crypto.Signer
	root   *x509.Certificate
	serial int64
}

func newKubelet() (*kubelet, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	root, err := pki.NewRoot(key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	return &kubelet{
		ca: &authority{key: key, root: root}, done: make(chan error, 1),
		secrets: map[types.NamespacedName]tls.Certificate{}, pods: map[types.UID]net.Listener{}, broken: map[string]bool{},
		second: 2 + mathrand.IntN(14), // ClusterIPs begin at 16
	}, nil
}

func (a *authority) bundle() []byte { return pki.EncodeCertificates(a.root) }

// issue returns a certificate for a Service, and how conditions name it. Each is
// younger than those before.
func (a *authority) issue(namespace, service string) (tls.Certificate, string, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		NotBefore:    time.Now().Add(-12*time.Hour + time.Duration(a.serial)*time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{service + "." + namespace + ".svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.root, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pki.Fingerprint(leaf), nil
}

// start runs the node until ctx ends.
func (k *kubelet) start(ctx context.Context) { k.done = harness.Repeat(ctx, k.sync) }

func (k *kubelet) wait() error {
	err := <-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.pods {
		err = errors.Join(err, l.Close())
	}
	return err
}

// sync starts the pods that are new and ends those that are gone.
func (k *kubelet) sync(ctx context.Context) error {
	var pods corev1.PodList
	if err := admin.List(ctx, &pods); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	alive := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		alive[pod.UID] = true
		if k.pods[pod.UID] != nil || k.broken[pod.Namespace] || pod.DeletionTimestamp != nil {
			continue
		}
		if err := k.run(ctx, pod); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("run pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for uid, l := range k.pods {
		if !alive[uid] {
			_ = l.Close()
			delete(k.pods, uid)
		}
	}
	return nil
}

func (k *kubelet) run(ctx context.Context, pod *corev1.Pod) error {
	cert, mounted := tls.Certificate{}, false
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil { // a client, which serves nothing
			mounted = true
			running := &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Running: running}}}
		}
		if v.Secret != nil {
			cert, mounted = k.secrets[types.NamespacedName{Namespace: pod.Namespace, Name: v.Secret.SecretName}]
		}
	}
	if !mounted {
		return nil
	}
	l, address, err := k.listen(ctx)
	if err != nil {
		return err
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs, pod.Status.StartTime = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}, &now
	for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := admin.Status().Update(ctx, pod); err != nil {
		return errors.Join(client.IgnoreNotFound(err), l.Close())
	}
	k.pods[pod.UID] = l
	go serve(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	return nil
}

// listen takes an address that nobody has.
func (k *kubelet) listen(ctx context.Context) (net.Listener, string, error) {
	var last error
	for range 100 {
		k.next++
		address := fmt.Sprintf("127.%d.%d.%d", k.second, k.next/250, 1+k.next%250)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return l, address, nil
		}
		last = err
	}
	return nil, "", last
}

func serve(l net.Listener, cfg *tls.Config) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			server := tls.Server(conn, cfg)
			if server.Handshake() == nil {
				_, _ = io.Copy(io.Discard, server)
			}
		}()
	}
}

// mount is what the kubelet does when a Secret has changed. Pods do not notice.
func (k *kubelet) mount(namespace, secret string, cert tls.Certificate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.secrets[types.NamespacedName{Namespace: namespace, Name: secret}] = cert
}

// breakDown keeps the namespace's new pods from starting, or lets them.
func (k *kubelet) breakDown(namespace string, broken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken[namespace] = broken
}
