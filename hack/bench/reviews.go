package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/controlplane/certs"
	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
)

const (
	// podsPerSecond is how many pods begin to be created a second, however long each takes.
	podsPerSecond = 200
	// creating is for how long.
	creating = 30 * time.Second
	// servicesEach is how many of the Services are in one namespace.
	servicesEach = 100

	theWebhook = "webhook"
	// reviewSeen is how long the API server waited for a review, as its own metric.
	reviewSeen = "apiserver_admission_webhook_admission_duration_seconds"
	// reviewTook is the same as the webhook sees it.
	reviewTook = "servingcert_webhook_review_duration_seconds"
)

// reviewed is what it took to create pods.
type reviewed struct {
	measure.Phase
	created    []time.Duration // from when each was due until it was there
	seen, took histogram
}

// runReviews creates pods at a steady rate, first in a namespace that is not opted in and
// then beside as many annotated Services as o.reviews in opted-in ones.
func (b *bench) runReviews(ctx context.Context) error {
	namespaces := (b.reviews + servicesEach - 1) / servicesEach
	namespaceOf := func(i int) string { return fmt.Sprintf("reviews-%03d", i%namespaces) }
	for i := range namespaces {
		if err := b.MakeNamespace(ctx, namespaceOf(i), measure.OptedIn()); err != nil {
			return err
		}
	}
	if err := errors.Join(b.MakeNamespace(ctx, "plain", nil), b.MakeNamespace(ctx, api.DefaultNamespace, nil)); err != nil {
		return err
	}
	process.Step("%d annotated Services with their Secrets", b.reviews)
	certPEM, keyPEM, err := pair()
	if err != nil {
		return err
	}
	err = b.each(ctx, b.reviews, func(ctx context.Context, i int) error {
		if err := b.MakeService(ctx, namespaceOf(i), i, true); err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: measure.Name(i) + "-tls", Labels: map[string]string{api.LabelManagedBy: api.DefaultInstance}},
			Type:       corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
		}
		_, err := b.Client.CoreV1().Secrets(namespaceOf(i)).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	hook, err := b.startWebhook(ctx)
	if err != nil {
		return err
	}
	defer hook.Kill()
	if err := hook.Wait(ctx, "injected pod", func() (time.Duration, bool) {
		pod, err := b.makePod(ctx, namespaceOf(0), measure.Name(0), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return 100 * time.Millisecond, err == nil && pod.Labels[api.LabelInjected] == "true"
	}); err != nil {
		return err
	}
	process.Step("%d pods a second that are not reviewed, for %s", podsPerSecond, creating)
	plain, err := b.createPods(ctx, hook, func(int) string { return "plain" })
	if err != nil {
		return err
	}
	process.Step("%d pods a second that are injected, for %s", podsPerSecond, creating)
	injected, err := b.createPods(ctx, hook, namespaceOf)
	if err != nil {
		return err
	}
	usage, err := hook.Usage()
	if err != nil {
		return err
	}
	metrics, err := hook.Scrape()
	if err != nil {
		return err
	}
	b.reportReviews(plain, injected, usage, metrics.Sum("servingcert_webhook_live_reads_total"))
	return hook.Stop()
}

// startWebhook starts the webhook with the arguments of deploy/install.yaml, and registers
// it with the configuration there, but for its address.
func (b *bench) startWebhook(ctx context.Context) (*measure.Process, error) {
	dir := filepath.Join(b.Dir, "webhook-certificate")
	authority, err := certs.New(dir, "ca", "bench")
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue("tls", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Rename(pair.CertFile, filepath.Join(dir, corev1.TLSCertKey)), os.Rename(pair.KeyFile, filepath.Join(dir, corev1.TLSPrivateKeyKey))); err != nil {
		return nil, err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	hook, err := b.Run(ctx, b.binary, nil, "--log-format=json", "--cert-dir", dir, "--bind-address", host, "--port", port, "--shutdown-delay=0s")
	if err != nil {
		return nil, err
	}
	config, err := installedWebhook()
	if err == nil {
		url := "https://" + address + admission.Path
		config.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority.CAPEM}
		_, err = b.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, config, metav1.CreateOptions{})
	}
	if err != nil {
		hook.Kill()
		return nil, err
	}
	return hook, nil
}

// installedWebhook returns the webhook configuration of deploy/install.yaml.
func installedWebhook() (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			var config admissionregistrationv1.MutatingWebhookConfiguration
			return &config, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &config)
		}
	}
	return nil, errors.New("deploy/install.yaml has no MutatingWebhookConfiguration")
}

// makePod makes a pod of the Service.
func (b *bench) makePod(ctx context.Context, namespace, service string, options metav1.CreateOptions) (*corev1.Pod, error) {
	return b.Client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{ // which asks for flags
			GenerateName: service + "-", Labels: map[string]string{"app": service}, Annotations: map[string]string{api.AnnotationMode: string(api.ModeArgs)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "registry.example.com/shop/web:v1.4.2", Args: []string{"serve", "--port=443"},
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 443}},
		}}},
	}, options)
}

// createPods begins to create a pod whenever one is due, whether those before it are there
// or not: how long each takes counts from when it was due.
func (b *bench) createPods(ctx context.Context, hook *measure.Process, namespaceOf func(i int) string) (reviewed, error) {
	n := int(podsPerSecond * creating.Seconds())
	r := reviewed{created: make([]time.Duration, n)}
	seen, took, err := b.histograms(ctx, hook)
	if err != nil {
		return r, err
	}
	m, err := b.Begin(ctx, map[string]*measure.Process{theWebhook: hook})
	if err != nil {
		return r, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		due := m.Start.Add(time.Duration(i) * time.Second / podsPerSecond)
		time.Sleep(time.Until(due))
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			_, err := b.makePod(ctx, namespaceOf(i), measure.Name(i%b.reviews), metav1.CreateOptions{})
			r.created[i] = time.Since(due)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	ctx = context.WithoutCancel(ctx)
	if r.Phase, err = m.End(ctx, n); err != nil {
		return r, err
	}
	seenAfter, tookAfter, err := b.histograms(ctx, hook)
	r.seen, r.took = seenAfter.since(seen), tookAfter.since(took)
	return r, err
}

// histograms reads how long reviews took so far, as the API server and as the webhook see
// it.
func (b *bench) histograms(ctx context.Context, hook *measure.Process) (seen, took histogram, err error) {
	data, err := b.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return seen, took, fmt.Errorf("metrics of the API server: %w", err)
	}
	ofServer, err := process.ParseMetrics(bytes.NewReader(data))
	if err != nil {
		return seen, took, fmt.Errorf("metrics of the API server: %w", err)
	}
	ofHook, err := hook.Scrape()
	return histogramOf(ofServer[reviewSeen]), histogramOf(ofHook[reviewTook]), err
}

// reportReviews prints the table.
func (b *bench) reportReviews(plain, injected reviewed, u measure.Usage, liveReads float64) {
	fmt.Printf("\nservingcert bench of reviews: %d pods a second for %s, %d annotated Services with Secrets in namespaces of %d, %s\n\n",
		podsPerSecond, creating, b.reviews, servicesEach, time.Now().UTC().Format("2006-01-02"))
	row := func(what, measured string) { fmt.Printf("| %-70s | %-60s |\n", what, measured) }
	row("what", "measured")
	row("---", "---")
	at := func(r reviewed, part float64) float64 { return ms(measure.Quantile(r.created, part)) }
	for _, k := range []struct {
		what string
		reviewed
	}{{"not reviewed", plain}, {"injected", injected}} {
		row("a pod is created, from when it was due, p50 / p99 / max: "+k.what, fmt.Sprintf("%.1f / %.1f / %.1f ms", at(k.reviewed, 0.5), at(k.reviewed, 0.99), at(k.reviewed, 1)))
	}
	row("reviews as the API server sees them", injected.seen.String())
	row("reviews as the webhook sees them", injected.took.String())
	row("reviews of pods that are not opted in", plain.seen.String())
	for _, process := range []string{theWebhook, controlplane.KubeAPIServer, controlplane.Etcd} {
		row("CPU a pod: "+process+", not reviewed and injected", fmt.Sprintf("%.2f, %.2f ms", plain.CPUEach(process), injected.CPUEach(process)))
	}
	row("webhook: peak RSS, with what its start took", mib(u.Peak))
	row("webhook: reads from the API server for reviews", fmt.Sprintf("%.0f", liveReads))
}
