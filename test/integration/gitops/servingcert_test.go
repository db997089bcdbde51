//go:build gitops

package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

// What the processes get beside the arguments of their Deployments: shorter waits.
var (
	signerFlags  = []string{"--ca-soak=1s", "--ca-reissue-window=1s"}
	rotatorFlags = []string{"--propagation-time=1s", "--verify-interval=1s", "--pod-cidrs=127.0.0.0/8"}
)

// installation is the four processes, each as its ServiceAccount.
type installation struct {
	whole                           *testing.T // at whose end they end
	signer, trust, rotator, webhook *harness.Program
}

// startProcesses runs them as the installed Deployments say.
func startProcesses(t *testing.T) installation {
	t.Helper()
	return installation{
		whole:   t,
		signer:  startProcess(t, "signer", signerFlags...),
		trust:   startProcess(t, "trust"),
		rotator: startProcess(t, "rotator", rotatorFlags...),
		webhook: startProcess(t, "webhook", harness.MountedWebhook(t, admin)...),
	}
}

func (i installation) stop() {
	for _, p := range []*harness.Program{i.signer, i.trust, i.rotator, i.webhook} {
		_ = p.Stop()
	}
}

// startProcess runs one and waits until it is ready.
func startProcess(t *testing.T, name string, flags ...string) *harness.Program {
	t.Helper()
	p, err := harness.Deployed(t.Context(), plane, dir, deploymentOf(t, system, "servingcert-"+name), name, flags...)
	require.NoError(t, err)
	p.Start(t)
	p.StopAtEnd(t)
	return p
}

func deploymentOf(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, d))
	return d
}

// bundle is the CA bundle that clients get now.
func bundle(t *testing.T) []byte {
	t.Helper()
	var status corev1.ConfigMap
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.CAStatusName}, &status))
	return []byte(status.Data[api.BundleKey])
}

// roots are the fingerprints of the roots in the bundle.
func roots(t *testing.T) []string {
	t.Helper()
	parsed, err := pki.ParseBundle(bundle(t))
	require.NoError(t, err)
	var all []string
	for _, root := range parsed.Certificates() {
		all = append(all, pki.Fingerprint(root))
	}
	return all
}

// leafOf is the fingerprint of the certificate in Secret web-tls.
func leafOf(t *testing.T, namespace string) string {
	t.Helper()
	var secret corev1.Secret
	harness.Eventually(t, func() error {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web-tls"}, &secret)
	})
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return pki.Fingerprint(chain[0])
}

// served waits until all pods of Service web serve the certificate in its Secret.
func served(t *testing.T, namespace string) {
	t.Helper()
	leaf := leafOf(t, namespace)
	harness.Eventually(t, func() error {
		var svc corev1.Service
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, &svc); err != nil {
			return err
		}
		c := api.Condition(&svc, api.ConditionServing)
		if seen, _ := state.ServingOf(&svc); c == nil || c.Status != metav1.ConditionTrue || seen.Leaf != leaf {
			return fmt.Errorf("leaf %s: condition Serving is %+v", leaf, c)
		}
		return nil
	})
}

// holders are the targets of the bundle in testdata/shop.yaml, and where they hold it.
func holders(namespace string) map[string]holder {
	return map[string]holder{
		"ConfigMap":                      {object("v1", "ConfigMap", namespace, "trust"), []string{"data", api.BundleKey}},
		"ValidatingWebhookConfiguration": {object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", namespace+"-hook"), []string{"webhooks", "clientConfig", "caBundle"}},
		"APIService":                     {object("apiregistration.k8s.io/v1", "APIService", "", "v1."+namespace+".example.com"), []string{"spec", "caBundle"}},
		"CustomResourceDefinition":       {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things."+namespace+".example.org"), []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"}},
	}
}

type holder struct {
	object *unstructured.Unstructured
	field  []string
}

// held returns what the field has.
func (h holder) held(ctx context.Context) (string, error) {
	if err := admin.Get(ctx, client.ObjectKeyFromObject(h.object), h.object); err != nil {
		return "", err
	}
	content, field := h.object.Object, h.field
	if field[0] == "webhooks" {
		hooks, _, _ := unstructured.NestedSlice(content, "webhooks")
		if len(hooks) != 1 {
			return "", errors.New("not one webhook")
		}
		content, field = hooks[0].(map[string]any), field[1:]
	}
	value, _, err := unstructured.NestedString(content, field...)
	return value, err
}

// targetsHold waits until each target of the application holds the bundle that clients get
// now, in all its forms.
func targetsHold(t *testing.T, namespace string) {
	t.Helper()
	want := bundle(t)
	for kind, h := range holders(namespace) {
		harness.Eventually(t, func() error {
			got, err := h.held(t.Context())
			if err == nil && got != string(want) && got != encoded(want) {
				err = fmt.Errorf("%s holds %d bytes, which are not the bundle", kind, len(got))
			}
			return err
		})
	}
}

// configMapData reads the data of a manifest of one ConfigMap.
func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}
