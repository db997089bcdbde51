// Package consumers has the rotator look at pods that serve: when it begins to lead, when all
// certificates are renewed, and when none of the pods takes up its new one.
package consumers

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Config says how many pods serve, and who looks at them.
type Config struct {
	*measure.Cluster
	Rotator        string // the binary
	Workers        int    // of the client that makes all of it
	Pods           int
	PodsPerService int // that share a certificate; each Service is one workload
}

// Watched is what was done until every Service said what there was to say.
type Watched struct {
	measure.Phase
	Dials, Writes float64 // of the rotator
}

// perNamespace is how many Services a namespace has.
const perNamespace = 100

// padding makes a pod as large as those of a cluster, 5 KB.
var padding = strings.Repeat("0123456789abcdef", 250)

// Open makes Services and pods that serve the certificates of their conditions, and starts
// the servers.
func Open(ctx context.Context, c Config) (*Field, error) {
	address, err := measure.FreeAddress()
	if err != nil {
		return nil, err
	}
	f := &Field{Config: c, s: servers{Port: netip.MustParseAddrPort(address).Port(), Pairs: map[string]pairPEM{}}}
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	f.servers, err = startServers(ctx, c.Dir, f.s)
	return f, err
}

// Start starts the rotator with the memory limit of deploy/install.yaml, and waits until it
// has seen what every pod serves.
func (f *Field) Start(ctx context.Context) (Watched, error) {
	var err error
	if f.Process, err = f.RunRotator(ctx, f.Rotator, "--pod-cidrs=127.0.0.0/8"); err != nil {
		return Watched{}, err
	}
	return f.measure(ctx, "conditions that say that all is served", f.allServed, func() error { return nil })
}

// Rotate renews all certificates at once, and has them served after a while.
func (f *Field) Rotate(ctx context.Context, after time.Duration) (Watched, error) {
	return f.measure(ctx, "conditions that say that all is served", f.allServed, func() error {
		if err := f.renew(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return ctx.Err()
		}
		return f.servers.reload(f.s)
	})
}

// LeaveStale renews all certificates at once, while every pod goes on serving the one that it
// has, and waits until every workload is called stale.
func (f *Field) LeaveStale(ctx context.Context) (Watched, error) {
	return f.measure(ctx, "conditions that say that all is stale", f.allStale, func() error { return f.renew(ctx) })
}

// measure does something and measures until it is seen to be done.
func (f *Field) measure(ctx context.Context, what string, done func(context.Context) bool, do func() error) (w Watched, err error) {
	before := f.count()
	m, err := f.Begin(ctx, map[string]*measure.Process{measure.TheRotator: f.Process})
	if err != nil {
		return w, err
	}
	if err := do(); err != nil {
		return w, err
	}
	if err := f.Process.Wait(ctx, what, func() (time.Duration, bool) { return 500 * time.Millisecond, done(ctx) }); err != nil {
		return w, err
	}
	if w.Phase, err = m.End(ctx, f.Pods); err != nil {
		return w, err
	}
	after := f.count()
	w.Dials, w.Writes = after.Dials-before.Dials, after.Writes-before.Writes
	return w, nil
}

// count reads what the rotator has done since its start; a process that does not answer yet
// has done nothing.
func (f *Field) count() Watched {
	m, err := f.Process.Scrape()
	if err != nil {
		return Watched{}
	}
	return Watched{Dials: m.Sum("servingcert_probes_total"), Writes: m.Writes()}
}

// Kill ends both if they were not closed.
func (f *Field) Kill() {
	if f.Process != nil {
		f.Process.Kill()
	}
	f.servers.kill()
}

// Close ends the rotator and the servers.
func (f *Field) Close() error { return errors.Join(f.Process.Stop(), f.servers.stop()) }

// Field is the Services, their pods and servers, and the rotator.
type Field struct {
	Config
	Process *measure.Process // the rotator
	s       servers
	servers *serverProcess
	root    *x509.Certificate
	key     crypto.Signer
}

func (f *Field) services() int { return f.Pods / f.PodsPerService }

func (f *Field) prepare(ctx context.Context) error {
	if err := f.MakeNamespace(ctx, api.DefaultNamespace, nil); err != nil {
		return err
	}
	for first := 0; first < f.services(); first += perNamespace {
		if err := f.makeNamespace(ctx, namespaceOf(first)); err != nil {
			return err
		}
	}
	var err error
	if f.key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
		return err
	}
	now := time.Now()
	if f.root, err = pki.NewRoot(f.key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now.Add(-time.Hour), now.Add(1000*time.Hour)); err != nil {
		return err
	}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.CAStatusName}, Data: map[string]string{api.BundleKey: string(pki.NewBundle(f.root).PEM())}}
	if _, err := f.Client.CoreV1().ConfigMaps(api.DefaultNamespace).Create(ctx, status, metav1.CreateOptions{}); err != nil {
		return err
	}
	measure.Step("%d Services and %d pods", f.services(), f.Pods)
	if err := measure.Each(ctx, f.services(), f.Workers, f.newService); err != nil {
		return err
	}
	if err := measure.Each(ctx, f.Pods, f.Workers, f.makePod); err != nil {
		return err
	}
	return f.renew(ctx)
}

// namespaceOf is the namespace of the i-th Service.
func namespaceOf(i int) string { return fmt.Sprintf("shop-%03d", i/perNamespace) }

// makeNamespace makes a namespace in which pods can be made.
func (f *Field) makeNamespace(ctx context.Context, name string) error {
	if err := f.MakeNamespace(ctx, name, nil); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := f.Client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// address is where the i-th pod serves.
func address(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{127, 5, byte(i >> 8), byte(i)})
}

func (f *Field) newService(ctx context.Context, i int) error {
	_, err := f.Client.CoreV1().Services(namespaceOf(i)).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: measure.Name(i), Annotations: map[string]string{api.AnnotationSecretName: measure.Name(i) + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": measure.Name(i)},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(int32(f.s.Port))}},
		},
	}, metav1.CreateOptions{})
	return err
}

func (f *Field) makePod(ctx context.Context, i int) error {
	app, namespace, yes := measure.Name(i/f.PodsPerService), namespaceOf(i/f.PodsPerService), true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-abc-" + strconv.Itoa(i), Annotations: map[string]string{"example.com/padding": padding}, Labels: map[string]string{"app": app, "pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/x", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-tls"}}}},
		},
	}
	if _, err := f.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	ip := address(i).String()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}}, "conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}})
	if err != nil {
		return err
	}
	_, err = f.Client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// renew makes a new certificate for each Service and says so in its condition.
func (f *Field) renew(ctx context.Context) error {
	leaves := make([]string, f.services())
	for i := range leaves {
		host := measure.Name(i) + "." + namespaceOf(i) + ".svc"
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return err
		}
		serial, err := pki.NewSerial()
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, DNSNames: []string{host}, NotBefore: pki.NotBefore(time.Now()), NotAfter: time.Now().Add(100 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, f.root, key.Public(), f.key)
		if err != nil {
			return err
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		keyPEM, err := pki.EncodeKey(key)
		if err != nil {
			return err
		}
		leaves[i], f.s.Pairs[host] = pki.Fingerprint(leaf), pairPEM{pki.EncodeCertificates(leaf), keyPEM}
	}
	return measure.Each(ctx, f.services(), f.Workers, func(ctx context.Context, i int) error {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{
			Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: api.ReadyFacts{Secret: measure.Name(i) + "-tls", Leaf: leaves[i]}.Message("issued"),
		}}}})
		if err != nil {
			return err
		}
		_, err = f.Client.CoreV1().Services(namespaceOf(i)).Patch(ctx, measure.Name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// all reports whether the metric counts every pod in the state, and what is said of every
// Service is so.
func (f *Field) all(ctx context.Context, state string, so func(*corev1.Service) bool) bool {
	m, err := f.Process.Scrape()
	if err != nil || m.Sum("servingcert_consumers", "state", state) != float64(f.Pods) {
		return false
	}
	list, err := f.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	n := 0
	for i := range list.Items {
		if _, annotated := list.Items[i].Annotations[api.AnnotationSecretName]; annotated && so(&list.Items[i]) {
			n++
		}
	}
	return n == f.services()
}

// allServed reports whether every Service says that what it should be is served.
func (f *Field) allServed(ctx context.Context) bool {
	return f.all(ctx, "current", func(svc *corev1.Service) bool {
		leaf, _ := api.LeafOf(svc)
		said, _ := api.ServingOf(svc)
		c := api.Condition(svc, api.ConditionServing)
		return c != nil && c.Status == metav1.ConditionTrue && said.Leaf == leaf
	})
}

// allStale reports whether every Service says that an older certificate is served, and the
// list of stale workloads has been written since.
func (f *Field) allStale(ctx context.Context) bool {
	return f.all(ctx, "stale", func(svc *corev1.Service) bool {
		c := api.Condition(svc, api.ConditionServing)
		return c != nil && c.Status == metav1.ConditionFalse
	})
}
