//go:build gitops

package gitops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// serverSide has Argo CD apply and compare on the API server, in place of what it does by
// itself: a three-way merge with what it applied last.
var serverSide = map[string]any{"syncPolicy": map[string]any{"syncOptions": []any{"ServerSideApply=true"}}}

// The same with Argo CD, self-heal on, for an application that it applies as kubectl apply
// does and for one that it applies server-side.
func TestArgoCD(t *testing.T) {
	tool := newArgo(t)
	servingcert := application{name: "servingcert", files: map[string][]byte{"install.yaml": readFile(t, repository+"/deploy/install.yaml")}}
	tool.deliver(t, servingcert)
	in := startProcesses(t)
	app := application{name: "client-side", files: shop(t, "client-side")}
	other := application{name: "server-side", files: shop(t, "server-side"), spec: serverSide}
	all := []string{"servingcert", "client-side", "server-side"}
	tool.deliver(t, app)
	tool.deliver(t, other)

	t.Run("FirstIssue", func(t *testing.T) {
		undisturbed(t, tool, all, func() { firstIssue(t, app.name); firstIssue(t, other.name) })
	})
	t.Run("Renewal", func(t *testing.T) {
		undisturbed(t, tool, all, func() { renewed(t, app.name); renewed(t, other.name) })
	})
	t.Run("Succession", func(t *testing.T) {
		undisturbed(t, tool, all, func() { succeeded(t, app.name, other.name) })
	})
	t.Run("NextCommit", func(t *testing.T) { committed(t, tool, app); committed(t, tool, other) })
	t.Run("RenewalWhileTheCAIsAway", func(t *testing.T) { pending(t, tool, &in, app.name) })
	t.Run("EmptyFields", func(t *testing.T) {
		generated := application{name: "generated", files: shopWithEmptyFields(t, "generated"), spec: exampleOf(t, "argocd-ignore-differences")}
		tool.deliver(t, generated)
		targetsHold(t, "generated")
		undisturbed(t, tool, []string{"generated"}, func() { succeeded(t, "generated") })
		generated.files["more.yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: generated}\n")
		tool.deliver(t, generated) // a synchronization of all
		targetsHold(t, "generated")
		tool.abandon(t, "generated")
	})
	t.Run("Health", func(t *testing.T) { argoHealth(t, tool) })
	t.Run("DeletedAndBack", func(t *testing.T) {
		helm := application{name: "servingcert", files: filesOf(t, "deploy/chart"), spec: map[string]any{"destination": map[string]any{"namespace": system}}}
		deletedAndBack(t, tool, in, servingcert, helm, app)
	})
}

// argoHealth delivers Services, with the script of deploy/gitops/argocd-cm.yaml.
func argoHealth(t *testing.T, tool *argo) {
	for name, c := range healthCases {
		t.Run(name, func(t *testing.T) {
			namespace := strings.ToLower(name)
			c.prepare(t, namespace)
			tool.deliver(t, application{name: namespace, files: map[string][]byte{"app.yaml": []byte(strings.ReplaceAll(c.manifest, "NAME", namespace))}})
			harness.Eventually(t, func() error {
				status, message, err := tool.health(t.Context(), namespace, "Service", "web")
				if err == nil && (status != c.argo.status || !strings.Contains(message, c.argo.message)) {
					err = fmt.Errorf("health is %s: %s", status, message)
				}
				return err
			})
			tool.abandon(t, namespace)
		})
	}
	// A load balancer without an address is what it is without the script.
	balancer := strings.ReplaceAll(fmt.Sprintf(healthNamespace+healthService, "enabled", asksForWeb), "spec: {", "spec: {type: LoadBalancer, ")
	tool.deliver(t, application{name: "balancer", files: map[string][]byte{"app.yaml": []byte(strings.ReplaceAll(balancer, "NAME", "balancer"))}})
	status, message, err := tool.health(t.Context(), "balancer", "Service", "web")
	require.NoError(t, err)
	assert.Equal(t, "Progressing", status)
	harness.Eventually(t, func() error {
		if status, message, err = tool.health(t.Context(), "balancer", "Service", "web"); err == nil && !strings.Contains(message, "load balancer") {
			err = fmt.Errorf("health is %s: %s", status, message)
		}
		return err
	})
	assert.NotNil(t, api.Condition(serviceOf(t, "balancer", "web"), api.ConditionReady))
	tool.abandon(t, "balancer")
}
