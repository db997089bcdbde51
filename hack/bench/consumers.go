package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
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

// podsPerService is how many pods share a certificate, and its Service.
const podsPerService = 10

// kubelet is how long a new certificate takes into a pod in the second rotation.
const kubelet = time.Minute

// watched is what the rotator did in a time.
type watched struct {
	took, cpu      time.Duration
	dials, patches float64
}

// runConsumers has the rotator look at pods that serve: when it begins to lead,
// when all certificates are renewed and served at once, and when they are served
// as late as a kubelet may bring them.
func (b *bench) runConsumers(ctx context.Context) error {
	port, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	f := &field{bench: b, port: netip.MustParseAddrPort(port).Port(), s: servers{Pairs: map[string]pairPEM{}}}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if f.servers, err = startServers(ctx, b.Dir, f.s); err != nil {
		return err
	}
	p, err := b.Run(ctx, b.binary, []string{"GOMEMLIMIT=off"}, "--pod-cidrs=127.0.0.0/8")
	if err != nil {
		return err
	}
	defer p.Kill()
	measure.Step("a new leader, %d pods", b.consumers)
	cold, err := f.until(ctx, p, watched{})
	if err != nil {
		return err
	}
	measure.Step("a rotation that is served at once")
	atOnce, err := f.rotate(ctx, p, 0)
	if err != nil {
		return err
	}
	measure.Step("a rotation that is served after %s", kubelet)
	late, err := f.rotate(ctx, p, kubelet)
	if err != nil {
		return err
	}
	peak, err := measure.PeakRSS(p.PID())
	if err != nil {
		return err
	}
	f.report(cold, atOnce, late, peak)
	if err := p.Stop(); err != nil {
		return err
	}
	return f.servers.stop()
}

func (f *field) report(cold, atOnce, late watched, peak float64) {
	fmt.Printf("\nservingcert bench: %s, %d cores, %d pods of %d Services, %s\n\n",
		runtime.Version(), runtime.NumCPU(), f.consumers, f.services(), time.Now().UTC().Format("2006-01-02"))
	row := func(what string, w func(watched) string) {
		fmt.Printf("| %-44s | %-12s | %-12s | %-12s |\n", what, w(cold), w(atOnce), w(late))
	}
	head := []string{"new leader", "at once", kubelet.String()}
	row("", func(watched) string { h := head[0]; head = head[1:]; return h })
	row("---", func(watched) string { return "---" })
	row("until every pod is seen to serve it", func(w watched) string { return w.took.Round(100 * time.Millisecond).String() })
	row("dials", func(w watched) string { return fmt.Sprintf("%.0f", w.dials) })
	row("dials per pod", func(w watched) string { return fmt.Sprintf("%.1f", w.dials/float64(f.consumers)) })
	row("API writes per Service", func(w watched) string { return fmt.Sprintf("%.2f", w.patches/float64(f.services())) })
	row("CPU of the rotator", func(w watched) string { return w.cpu.Round(10 * time.Millisecond).String() })
	row("CPU per dial", func(w watched) string { return fmt.Sprintf("%.2f ms", w.cpu.Seconds()*1000/w.dials) })
	fmt.Printf("\npeak RSS %s\n", mib(peak))
}

// field is the Services, pods and servers.
type field struct {
	*bench
	port    uint16
	s       servers
	servers *serverProcess
	root    *x509.Certificate
	key     crypto.Signer
}

func (f *field) services() int { return f.consumers / podsPerService }

func (f *field) prepare(ctx context.Context) error {
	for _, ns := range []string{api.DefaultNamespace, "cold"} {
		if err := f.MakeNamespace(ctx, ns, nil); err != nil {
			return err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := f.Client.CoreV1().ServiceAccounts("cold").Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
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
	measure.Step("%d Services and %d pods", f.services(), f.consumers)
	if err := f.each(ctx, f.services(), f.newService); err != nil {
		return err
	}
	for i := range f.consumers {
		f.s.Addresses = append(f.s.Addresses, f.address(i).String())
	}
	if err := f.each(ctx, f.consumers, f.makePod); err != nil {
		return err
	}
	return f.renew(ctx)
}

// address is where the i-th pod serves.
func (f *field) address(i int) netip.AddrPort {
	i++
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 5, byte(i >> 8), byte(i)}), f.port)
}

func (f *field) newService(ctx context.Context, i int) error {
	_, err := f.Client.CoreV1().Services(coldNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: measure.Name(i), Annotations: map[string]string{api.AnnotationSecretName: measure.Name(i) + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": measure.Name(i)},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(int32(f.port))}},
		},
	}, metav1.CreateOptions{})
	return err
}

func (f *field) makePod(ctx context.Context, i int) error {
	app, yes := measure.Name(i/podsPerService), true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-abc-" + strconv.Itoa(i), Labels: map[string]string{"app": app, "pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/x", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-tls"}}}},
		},
	}
	if _, err := f.Client.CoreV1().Pods("cold").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	ip := f.address(i).Addr().String()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}}, "conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}})
	if err != nil {
		return err
	}
	_, err = f.Client.CoreV1().Pods("cold").Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// renew makes a new certificate for each Service and says so in its condition.
func (f *field) renew(ctx context.Context) error {
	leaves := make([]string, f.services())
	for i := range leaves {
		host := measure.Name(i) + ".cold.svc"
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
	return f.each(ctx, f.services(), func(ctx context.Context, i int) error {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{{
			Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: api.ReadyFacts{Secret: measure.Name(i) + "-tls", Leaf: leaves[i]}.Message("issued"),
		}}}})
		if err != nil {
			return err
		}
		_, err = f.Client.CoreV1().Services(coldNamespace).Patch(ctx, measure.Name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// rotate renews everything, and has it served after a while.
func (f *field) rotate(ctx context.Context, p *measure.Process, after time.Duration) (watched, error) {
	before, err := observe(p)
	if err != nil {
		return watched{}, err
	}
	p.Started = time.Now()
	if err := f.renew(ctx); err != nil {
		return watched{}, err
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return watched{}, ctx.Err()
	}
	if err := f.servers.reload(f.s); err != nil {
		return watched{}, err
	}
	return f.until(ctx, p, before)
}

// until waits until every Service says that what it should be is served, and
// returns what the rotator has done since before.
func (f *field) until(ctx context.Context, p *measure.Process, before watched) (watched, error) {
	err := p.Wait(ctx, "conditions that say that all is served", func() (time.Duration, bool) { return 200 * time.Millisecond, f.allServed(ctx, p) })
	if err != nil {
		return watched{}, err
	}
	took := time.Since(p.Started)
	now, err := observe(p)
	return watched{took, now.cpu - before.cpu, now.dials - before.dials, now.patches - before.patches}, err
}

// allServed reports whether every Service says that what it should be is served.
func (f *field) allServed(ctx context.Context, p *measure.Process) bool {
	list, err := f.Client.CoreV1().Services(coldNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for i := range list.Items {
		leaf, _ := api.LeafOf(&list.Items[i])
		said, _ := api.ServingOf(&list.Items[i])
		if c := api.Condition(&list.Items[i], api.ConditionServing); c == nil || c.Status != metav1.ConditionTrue || said.Leaf != leaf {
			return false
		}
	}
	m, err := p.Scrape()
	return err == nil && m.Sum("servingcert_consumers", "state", "current") == float64(f.consumers)
}

func observe(p *measure.Process) (watched, error) {
	m, err := p.Scrape()
	if err != nil {
		return watched{}, err
	}
	return watched{
		cpu:   time.Duration(m.Sum("process_cpu_seconds_total") * float64(time.Second)),
		dials: m.Sum("servingcert_probes_total"), patches: m.Sum("rest_client_requests_total", "method", http.MethodPatch),
	}, nil
}
