package signer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var optedIn = map[string]string{api.LabelInject: api.InjectEnabled}

// makeSharedNamespace makes the namespace of the shared signer, which is not one
// test's.
func makeSharedNamespace() error {
	_, err := admin.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sys-shared"}}, metav1.CreateOptions{})
	return err
}

func makeNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { // a signer of another test must not find it
		if err := keyInWords(name); err != nil {
			t.Error(err)
		}
		err := admin.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceOf starts every namespace of a test.
func namespaceOf(t *testing.T) string {
	name := notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	return strings.Trim(name[:min(len(name), 50)], "-")
}

// newName is a name for a namespace of the test.
func newName(t *testing.T) string { return namespaceOf(t) + "-" + utilrand.String(5) }

// newNamespace makes a namespace that is opted in.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := newName(t)
	makeNamespace(t, name, optedIn)
	return name
}

// makeService makes a Service that asks for SERVICE-tls unless the annotations
// (key, value, …) say otherwise.
func makeService(t *testing.T, namespace, name string, annotations ...string) *corev1.Service {
	t.Helper()
	svc, err := admin.CoreV1().Services(namespace).Create(t.Context(), harness.Service(namespace, name, annotations...), metav1.CreateOptions{})
	require.NoError(t, err)
	return svc
}

// annotate sets annotations of a Service, or takes those away whose value is nil.
func annotate(t *testing.T, namespace, name string, annotations map[string]any) {
	t.Helper()
	_, err := admin.CoreV1().Services(namespace).Patch(t.Context(), name, types.MergePatchType, metadataPatch(t, "annotations", annotations), metav1.PatchOptions{})
	require.NoError(t, err)
}

func metadataPatch(t *testing.T, field string, values map[string]any) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{field: values}})
	require.NoError(t, err)
	return body
}

func patchSecret(t *testing.T, namespace, name string, patch map[string]any) {
	t.Helper()
	body, err := json.Marshal(patch)
	require.NoError(t, err)
	_, err = admin.CoreV1().Secrets(namespace).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
}

func getSecret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	secret, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

func secretGone(t *testing.T, namespace, name string) error {
	_, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("Secret %s is still there (%w)", name, err)
}

// waitReady waits for the Service's condition to have the status and reason.
func waitReady(t *testing.T, namespace, name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var have metav1.Condition
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := api.Condition(svc, api.ConditionReady)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("condition of %s is %v, want %s %s", name, c, status, reason)
		}
		have = *c
		return nil
	})
	return have
}

// served is a Secret as a server and its client find it.
type served struct {
	secret *corev1.Secret
	leaf   *x509.Certificate
	chain  []*x509.Certificate
}

func (s served) fingerprint() string { return pki.Fingerprint(s.leaf) }

// whatIsServed reads the Secret as a server does that is given its files.
func whatIsServed(ctx context.Context, namespace, name string) (served, error) {
	secret, err := admin.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return served{}, err
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return served{}, err
	}
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return served{}, err
	}
	return served{secret, certs[0], certs[1:]}, nil
}

// waitGood waits until all is well with a Service: the condition is True, the
// Secret is its, and what is served from it is the leaf that the condition names
// and verifies for the Service's name under the bundle alone. not are the
// fingerprints of earlier leaves.
func (r *running) waitGood(t *testing.T, namespace, service, secret string, not ...string) served {
	t.Helper()
	var have served
	harness.Eventually(t, func() error {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := api.Condition(svc, api.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("condition is %v", c)
		}
		if have, err = whatIsServed(t.Context(), namespace, secret); err != nil {
			return err
		}
		if named, _ := state.LeafOf(svc); named != have.fingerprint() {
			return fmt.Errorf("the condition names leaf %s, the Secret has %s", named, have.fingerprint())
		}
		if slices.Contains(not, have.fingerprint()) {
			return fmt.Errorf("still leaf %s", have.fingerprint())
		}
		if !slices.ContainsFunc(have.secret.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == svc.UID }) {
			return fmt.Errorf("%s is no owner: %v", service, have.secret.OwnerReferences)
		}
		if have.secret.Labels[api.LabelManagedBy] != r.instance {
			return fmt.Errorf("labels are %v", have.secret.Labels)
		}
		return r.verify(t.Context(), have, service+"."+namespace+".svc")
	})
	return have
}

// verify checks as a client does that knows the bundle and nothing else.
func (r *running) verify(ctx context.Context, s served, name string) error {
	pem, err := r.bundle(ctx)
	if err != nil {
		return err
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for _, c := range s.chain {
		intermediates.AddCert(c)
	}
	_, err = s.leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates, CurrentTime: r.now()})
	return err
}

func (r *running) bundle(ctx context.Context) ([]byte, error) {
	cm, err := admin.CoreV1().ConfigMaps(r.namespace).Get(ctx, api.CAStatusName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(cm.Data[api.BundleKey]), nil
}

// waitRest waits until nothing in the namespace was written for a while: signers
// that fight with each other, or one with itself, have no such time.
func waitRest(t *testing.T, namespace string) {
	t.Helper()
	const quiet = time.Second
	var last []string
	since := time.Now()
	harness.Eventually(t, func() error {
		now := versionsIn(t, namespace)
		if !slices.Equal(now, last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("still writing: %q", now)
		}
		return nil
	})
}

// versionsIn returns name and resource version of each Service and Secret.
func versionsIn(t *testing.T, namespace string) []string {
	t.Helper()
	services, err := admin.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	secrets, err := admin.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	for _, o := range services.Items {
		out = append(out, "Service "+o.Name+" "+o.ResourceVersion)
	}
	for _, o := range secrets.Items {
		out = append(out, "Secret "+o.Name+" "+o.ResourceVersion)
	}
	return out
}

// eventsOf returns "TYPE REASON: NOTE" of the events that the signer has emitted on a
// Service. kube-apiserver emits some too: every three minutes it looks for ClusterIPs
// that are not allocated, and takes that of a Service that is just being created for
// one.
func eventsOf(ctx context.Context, namespace, service string) ([]string, error) {
	list, err := admin.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list.Items {
		if e.ReportingController == "servingcert-signer" && e.Regarding.Kind == "Service" && e.Regarding.Name == service {
			out = append(out, e.Type+" "+e.Reason+": "+e.Note)
		}
	}
	return out, nil
}

// waitEvent waits for an event on the Service that starts with the words.
func waitEvent(t *testing.T, namespace, service, words string) string {
	t.Helper()
	var found string
	harness.Eventually(t, func() error {
		events, err := eventsOf(t.Context(), namespace, service)
		for _, e := range events {
			if strings.HasPrefix(e, words) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("no event %q among %q (%w)", words, events, err)
	})
	return found
}
