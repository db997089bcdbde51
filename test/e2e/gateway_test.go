//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// gatewayScene: docs/gateways.md with a real gateway, to which the clients connect in plaintext. It
// connects to the server over TLS, and verifies it according to the rotator's policy.
func gatewayScene() *scene {
	web := server{namespace: "e2e-gateway", service: "web", secret: "web-tls", port: 8443, reloads: true}
	route := handshake.Target{Address: "traefik.e2e-gateway.svc.cluster.local.:80", Name: "web.example.com", Exchange: "http", Plaintext: true}
	s := &scene{
		name: "gateway", about: "Traefik in front of a server, with a BackendTLSPolicy", manifest: "gateway.yaml",
		servers: []server{web}, routes: []handshake.Target{route},
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "installs the Gateway API, which the cluster may already have"
			}
			return ""
		},
	}
	s.up = func(t *testing.T, c *cluster) {
		c.makesPolicies(t)
		c.starts(t, web, "/", "hello from web-")
		crds, err := controlplane.GatewayCRDs(t.Context())
		require.NoError(t, err)
		objects, err := deploy.Decode(crds)
		require.NoError(t, err)
		require.NoError(t, deploy.ApplyObjects(t.Context(), c.admin, owner, objects))
		c.apply(t, "gatewaytraefik.yaml")
		eventually(t, starting, web.namespace, func(ctx context.Context) error { return c.rolledOut(ctx, web.namespace, "") })
		eventually(t, settling, "the gateway does not trust the server", func(ctx context.Context) error {
			err := c.ask(ctx, attentive, http.MethodPost, "shake", route)
			if err != nil && strings.Contains(err.Error(), "status 500") {
				return nil
			}
			return fmt.Errorf("without a policy: %w", err)
		})
		start := time.Now()
		c.annotate(t, web, api.AnnotationBackendTLSPolicy, "true")
		eventually(t, propagating, "the gateway calls the server", func(ctx context.Context) error {
			return c.ask(ctx, attentive, http.MethodPost, "shake", route)
		})
		s.note(fmt.Sprintf("it responded %s after the annotation", seconds(time.Since(start))))
	}
	return s
}

// makesPolicies enables BackendTLSPolicies, as in docs/gateways.md. Their kind does not exist yet.
func (c *cluster) makesPolicies(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/policies/backend-tls-policies.yaml")
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), c.admin, owner, objects))
	c.setArgs(t, "trust", "--backend-tls-policies")
}
