//go:build gitops

package gitops

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// What is installed and delivered by Flux stays as the repository says, whatever servingcert
// does, and Flux takes nothing of it back.
func TestFlux(t *testing.T) {
	tool := newFlux(t)
	servingcert := application{name: "servingcert", files: filesOf(t, "deploy/kustomize/base")}
	tool.deliver(t, servingcert)
	in := startProcesses(t)
	app := application{name: "shop", files: shop(t, "shop")}
	both := []string{"servingcert", "shop"}
	tool.deliver(t, app)

	t.Run("FirstIssue", func(t *testing.T) {
		undisturbed(t, tool, both, func() { firstIssue(t, "shop") })
	})
	t.Run("Renewal", func(t *testing.T) {
		undisturbed(t, tool, both, func() { renewed(t, "shop") })
	})
	t.Run("Succession", func(t *testing.T) {
		undisturbed(t, tool, both, func() { succeeded(t, "shop") })
	})
	t.Run("NextCommit", func(t *testing.T) { committed(t, tool, app) })
	t.Run("RenewalWhileTheCAIsAway", func(t *testing.T) { pending(t, tool, &in, "shop") })
	t.Run("AnnotationByKubectl", func(t *testing.T) {
		annotatedByHand(t, "shop", "kubectl-annotate")
		before, since := len(writes(t, tool)), time.Now()
		require.NoError(t, tool.look(t.Context(), "shop"))
		assert.NotEmpty(t, changed(t, writes(t, tool)[before:], since), "a correction is seen as a write")
		assert.NotContains(t, serviceOf(t, "shop", "web").Annotations, api.AnnotationRenewAfter, "Flux takes back what kubectl wrote")
	})
	t.Run("EmptyFields", func(t *testing.T) { fluxEmptyFields(t, tool) })
	t.Run("Health", func(t *testing.T) { fluxHealth(t, tool) })
	t.Run("DeletedAndBack", func(t *testing.T) {
		deletedAndBack(t, tool, in, servingcert, application{name: "servingcert", files: map[string][]byte{"chart.yaml": chart(t, system)}}, app)
	})
}

// fluxEmptyFields delivers targets whose manifests have the field of the bundle, as
// generators write them, with the rules of docs/gitops.md.
func fluxEmptyFields(t *testing.T, tool *flux) {
	app := application{name: "generated", files: shopWithEmptyFields(t, "generated"), spec: exampleOf(t, "flux-ignore")}
	tool.deliver(t, app)
	targetsHold(t, "generated")
	require.NoError(t, tool.look(t.Context(), "generated"))
	targetsHold(t, "generated")
	undisturbed(t, tool, []string{"generated"}, func() { succeeded(t, "generated") })
	tool.remove(t, "generated")
}

// fluxHealth delivers Services with deploy/gitops/flux-health-checks.yaml.
func fluxHealth(t *testing.T, tool *flux) {
	spec := exampleOf(t, "flux-health-checks")
	spec["wait"], spec["timeout"] = true, "3s"
	for name, c := range healthCases {
		t.Run(name, func(t *testing.T) {
			namespace := strings.ToLower(name)
			c.prepare(t, namespace)
			app := application{name: namespace, files: map[string][]byte{"app.yaml": []byte(strings.ReplaceAll(c.manifest, "NAME", namespace))}, spec: spec}
			start := time.Now()
			tool.apply(t, app)
			var said []string // Flux looks for half a minute each time, and an attempt may fail for want of time
			require.Eventually(t, func() bool {
				got, err := tool.get(t.Context(), namespace)
				if err != nil {
					return false
				}
				status, message := conditionOf(got, "Ready")
				if last := status + ": " + message; len(said) == 0 || said[len(said)-1] != last {
					said = append(said, last)
				}
				return status == c.flux.status && strings.Contains(message, c.flux.message)
			}, 3*harness.Soon, harness.Tick, "Ready was %q", &said)
			t.Logf("%s after %s", c.flux.message, time.Since(start).Round(100*time.Millisecond))
			tool.remove(t, namespace)
		})
	}
}

// healthCase is a Service, and what each tool says of it.
type healthCase struct {
	manifest string
	prepare  func(t *testing.T, namespace string)
	flux     struct{ status, message string }
	argo     struct{ status, message string }
}

const (
	healthNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME, labels: {servingcert.dev/inject: %s}}\n---\n"
	healthService   = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: NAME, annotations: {%s}}\nspec: {selector: {app: web}, ports: [{port: 443}]}\n"
)

var asksForWeb = api.AnnotationSecretName + ": web-tls"

var healthCases = map[string]healthCase{
	"Issued": {
		manifest: fmt.Sprintf(healthNamespace+healthService, "enabled", asksForWeb),
		prepare:  func(*testing.T, string) {},
		flux:     struct{ status, message string }{"True", "ReconciliationSucceeded"},
		argo:     struct{ status, message string }{"Healthy", ""},
	},
	"Plain": {
		manifest: fmt.Sprintf(healthNamespace+healthService, "enabled", ""),
		prepare:  func(*testing.T, string) {},
		flux:     struct{ status, message string }{"True", "ReconciliationSucceeded"},
		argo:     struct{ status, message string }{"Healthy", ""},
	},
	"Unlabelled": {
		manifest: fmt.Sprintf(healthNamespace+healthService, "disabled", asksForWeb),
		prepare:  func(*testing.T, string) {},
		flux:     struct{ status, message string }{"False", "timeout waiting for: [Service/unlabelled/web status: 'InProgress'"},
		argo:     struct{ status, message string }{"Progressing", "not issued yet"},
	},
	"Conflicting": {
		manifest: fmt.Sprintf(healthNamespace+healthService, "enabled", asksForWeb),
		prepare: func(t *testing.T, namespace string) { // somebody's Secret has the name
			require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
			require.NoError(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-tls"}, Data: map[string][]byte{"of": []byte("another")}}))
		},
		flux: struct{ status, message string }{"False", "failed early due to stalled resources: [Service/conflicting/web status: 'Failed']"},
		argo: struct{ status, message string }{"Degraded", "SecretConflict"},
	},
}

// shopWithEmptyFields is the application with the fields that hold the bundle, empty.
func shopWithEmptyFields(t *testing.T, namespace string) map[string][]byte {
	t.Helper()
	const empty = `caBundle: ""`
	of := "{namespace: " + namespace + ", name: web"
	files := shop(t, namespace,
		"kind: ConfigMap\n", "kind: ConfigMap\ndata: {"+api.BundleKey+": \"\"}\n",
		"clientConfig: {service: {namespace: NAME, name: web", "clientConfig: {"+empty+", service: "+of,
		"  service: {namespace: NAME, name: web}\n", "  "+empty+"\n  service: "+of+"}\n")
	require.Equal(t, 3, strings.Count(string(files["shop.yaml"]), empty))
	return files
}

// exampleOf is what a file of deploy/gitops says to add to the spec of an Application or a
// Kustomization.
func exampleOf(t *testing.T, name string) map[string]any {
	t.Helper()
	var spec map[string]any
	require.NoError(t, yaml.Unmarshal(readFile(t, repository+"/deploy/gitops/"+name+".yaml"), &spec))
	return spec
}

// deletedAndBack deletes the application that is servingcert, and delivers it in another form
// of itself: the CA is the same, and so are the certificates.
func deletedAndBack(t *testing.T, tool tool, in installation, is, back, app application) {
	t.Helper()
	leaf, before := leafOf(t, app.name), roots(t)
	in.stop()
	tool.remove(t, is.name)
	var ns corev1.Namespace
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: system}, &ns))
	require.Nil(t, ns.DeletionTimestamp, "the namespace of the CA is not deleted")
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.CASecretName}, &corev1.Secret{}))
	webhook := object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "servingcert")
	isGone(t, webhook)
	isGone(t, object("apps/v1", "Deployment", system, "servingcert-signer"))

	tool.deliver(t, back)
	startProcesses(t)
	undisturbed(t, tool, []string{back.name, app.name}, func() {
		harness.Eventually(t, func() error { // the webhook answers again
			pods := &corev1.PodList{}
			if err := admin.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(app.name)); err != nil {
				return err
			}
			if err := admin.List(t.Context(), pods, client.InNamespace(app.name), client.HasLabels{api.LabelInjected}); err != nil {
				return err
			}
			if len(pods.Items) == 0 {
				return errors.New("no pod is injected")
			}
			return nil
		})
		served(t, app.name)
	})
	assert.Equal(t, before, roots(t))
	assert.Equal(t, leaf, leafOf(t, app.name))
	targetsHold(t, app.name)
}
