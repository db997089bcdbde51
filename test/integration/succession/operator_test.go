package succession

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	operatorNamespace = "widgets-system"
	operatorService   = "widgets-webhook-service"
	operatorSecret    = "webhook-server-cert"
	operatorPort      = 9443
)

// operator is an operator with a defaulting, a validating and a conversion webhook, and
// somebody whose writes make the API server call all three, all the time.
type operator struct {
	client  client.Client
	address string
	end     context.CancelFunc

	mu       sync.Mutex
	calls    int // writes that succeeded
	failures []error
}

// operatorManifest returns kubebuilder's manifests for who issues the certificates: cert-manager or servingcert.
func operatorManifest(t *scene, issuer string) []byte {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("testdata", "operator", issuer+".yaml"))
	require.NoError(t, err)
	return forProgram(t, manifest)
}

// startOperator installs kubebuilder's manifests and runs the operator. There is no other certificate tool.
func startOperator(t *scene) *operator {
	t.Helper()
	manifest := operatorManifest(t, "servingcert")
	require.NotContains(t, string(manifest), "cert-manager.io")
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	o := newOperator(t)
	require.NoError(t, deploy.ApplyObjects(t.Context(), o.client, "test", objects))
	o.run(t)
	return o
}

// newOperator returns an operator that does not run, and lets the rotator write into its webhooks.
func newOperator(t *scene) *operator {
	t.Helper()
	c, err := client.New(t.plane.AdminConfig(), client.Options{})
	require.NoError(t, err)
	nameWebhooks(t, c)
	return &operator{client: c}
}

// run runs its program, which is installed, and writes until the test ends.
func (o *operator) run(t *scene) {
	t.Helper()
	svc, err := t.admin.CoreV1().Services(operatorNamespace).Get(t.Context(), operatorService, metav1.GetOptions{})
	require.NoError(t, err)
	o.address = net.JoinHostPort(svc.Spec.ClusterIP, fmt.Sprint(operatorPort))

	temporary := t.TempDir()
	volume, mounted := o.volume(t), filepath.Join(temporary, "k8s-webhook-server", "serving-certs")
	require.NoError(t, os.MkdirAll(mounted, 0o700))
	project := func(ctx context.Context) error {
		return kubelet.Project(ctx, o.client, operatorNamespace, volume, mounted)
	}
	harness.Eventually(t, func() error { return project(t.Context()) }) // a kubelet holds the pod until the Secret is there
	executable, err := os.Executable()
	require.NoError(t, err)
	program := &harness.Program{Label: "operator", Path: executable, NoHealth: true, Env: []string{envOperator + "=" + o.address, "TMPDIR=" + temporary}}
	program.Launch(t)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	o.end = end
	o.keep(ctx, t, func() { _ = project(ctx) }) // what fails is tried again
	harness.Eventually(t, func() error { return o.write(t.Context(), "first") })
	o.keep(ctx, t, func() {
		err := o.write(ctx, fmt.Sprint("widget-", o.seen().calls))
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.calls++; err != nil {
			o.failures = append(o.failures, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
		}
	})
}

// keep does something again and again until ctx or the test ends.
func (o *operator) keep(ctx context.Context, t *scene, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			do()
			select {
			case <-ctx.Done():
			case <-time.After(2 * tick):
			}
		}
	}()
	t.Cleanup(func() { o.end(); <-done })
}

// forProgram returns the manifests with the port of the program, and without the ServiceMonitor,
// whose kind is not served.
func forProgram(t *scene, manifest []byte) (out []byte) {
	t.Helper()
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	for _, obj := range objects {
		if obj.GetKind() == "ServiceMonitor" {
			continue
		}
		atOwnPort(t, obj)
		document, err := yaml.Marshal(obj.Object)
		require.NoError(t, err)
		out = append(append(out, "---\n"...), document...)
	}
	return out
}

// volume returns the volume of its Deployment with the certificate of its webhooks.
func (o *operator) volume(t *scene) corev1.Volume {
	t.Helper()
	deployment, err := t.admin.AppsV1().Deployments(operatorNamespace).Get(t.Context(), "widgets-controller-manager", metav1.GetOptions{})
	require.NoError(t, err)
	volumes := deployment.Spec.Template.Spec.Volumes
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "webhook-certs" })
	require.GreaterOrEqual(t, i, 0)
	return volumes[i]
}

// atOwnPort lets the Service have the port of the program, as no kube-proxy translates one
// into the other.
func atOwnPort(t *scene, obj *unstructured.Unstructured) {
	t.Helper()
	set := func(in map[string]any, path ...string) {
		require.NoError(t, unstructured.SetNestedField(in, int64(operatorPort), path...))
	}
	switch obj.GetKind() {
	case "Service":
		if obj.GetName() == operatorService {
			set(obj.Object["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any), "port")
		}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, hook := range obj.Object["webhooks"].([]any) {
			set(hook.(map[string]any), "clientConfig", "service", "port")
		}
	case "CustomResourceDefinition":
		set(obj.Object, "spec", "conversion", "webhook", "clientConfig", "service", "port")
	}
}

// nameWebhooks applies the role of docs/trust.md, for the operator's configurations.
func nameWebhooks(t *scene, c client.Client) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/trust.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "# servingcert-trust-more-webhooks.yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	require.Contains(t, block, "[my-webhooks]")
	block = strings.Replace(block, "my-webhooks]", "widgets-mutating-webhook-configuration, widgets-validating-webhook-configuration]", 1)
	objects, err := deploy.Decode([]byte(block))
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), c, "test", objects))
}

func widget(version, name string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{}
	w.SetAPIVersion("factory.example.com/" + version)
	w.SetKind("Widget")
	w.SetNamespace("default")
	w.SetName(name)
	return w
}

// write creates and deletes a widget, and is nil if all three webhooks did their part.
func (o *operator) write(ctx context.Context, name string) error {
	w := widget("v1", name)
	_ = unstructured.SetNestedField(w.Object, "endless", "spec", "size")
	if err := o.client.Create(ctx, w); err == nil || !strings.Contains(err.Error(), "no widget is endless") {
		return errors.Join(errors.New("not refused by the validating webhook"), err)
	}
	w = widget("v1", name)
	_ = unstructured.SetNestedField(w.Object, "2m", "spec", "size")
	if err := o.client.Create(ctx, w); err != nil {
		return err
	}
	stored := widget("v2", name)
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
		return err
	}
	if length, _, _ := unstructured.NestedString(stored.Object, "spec", "length"); length != "2m" || stored.GetLabels()["defaulted"] != "true" {
		return fmt.Errorf("not converted or not defaulted: %v", stored.Object)
	}
	return o.client.Delete(ctx, stored)
}

// requireCalled waits until the operator serves a certificate of the generation, and requires that
// no call has failed so far.
func (o *operator) requireCalled(t *scene, generation string) *x509.Certificate {
	t.Helper()
	leaf := o.called(t, func(leaf *x509.Certificate) bool {
		return strings.HasPrefix(leaf.Issuer.CommonName, "servingcert CA "+generation+" ")
	})
	require.Empty(t, o.forget())
	return leaf
}

// called waits until the operator serves the certificate of its Secret, which is one of those that
// are wanted, and was called with it without a failure.
func (o *operator) called(t *scene, wanted func(*x509.Certificate) bool) (leaf *x509.Certificate) {
	t.Helper()
	harness.Eventually(t, func() error {
		secret, err := t.admin.CoreV1().Secrets(operatorNamespace).Get(t.Context(), operatorSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
		if err != nil {
			return err
		}
		leaf = certs[0]
		conn, err := tls.Dial("tcp", o.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the API server verifies
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if served := conn.ConnectionState().PeerCertificates[0]; !served.Equal(leaf) {
			return fmt.Errorf("serves %s", served.NotBefore)
		}
		if !wanted(leaf) {
			return fmt.Errorf("signed by %s", leaf.Issuer)
		}
		return nil
	})
	before := o.seen()
	harness.Eventually(t, func() error { // one may have begun before
		now := o.seen()
		if now.failures > before.failures {
			before = now
		}
		if now.calls < before.calls+2 {
			return fmt.Errorf("%d calls, of which %d failed", now.calls, now.failures)
		}
		return nil
	})
	return leaf
}

// seen is how many calls there were, and failed.
type seen struct{ calls, failures int }

func (o *operator) seen() seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return seen{o.calls, len(o.failures)}
}

// forget returns the calls that failed so far, which no longer count.
func (o *operator) forget() (failures []error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	failures, o.failures = o.failures, nil
	return failures
}
