//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// moved changes its issuer.
var moved = server{namespace: "e2e-certmanager", service: "moved", secret: "moved-cm", port: 8443, reloads: true}

// movedRoute leads to moved. Clients trust both issuers, as docs/other-issuers.md says.
func (c *cluster) movedRoute(t *testing.T) handshake.Target {
	t.Helper()
	secret, err := c.foreign(t.Context(), moved)
	require.NoError(t, err)
	bundle := &corev1.ConfigMap{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: moved.namespace, Name: api.BundleName}, bundle))
	target := moved.target()
	target.Roots = string(secret.ca) + bundle.Data[api.BundleKey]
	return target
}

// moves has moved change from cert-manager to servingcert and back, with the same Secret and with another one, in the order of
// docs/other-issuers.md.
func (c *cluster) moves(t *testing.T, route handshake.Target) {
	t.Helper()
	own := moved
	own.secret = "moved-own"

	c.requests(t, moved.secret, nil)
	c.removesIssued(t)
	c.isOurs(t, moved, route)
	c.requests(t, moved.secret, api.IssuerExternal)
	c.apply(t, "certmanagermoved.yaml")
	c.isFollowed(t, route)

	c.requests(t, own.secret, nil)
	c.rollsOut(t, own)
	c.isOurs(t, own, route)
	c.removesIssued(t)
	c.apply(t, "certmanagermoved.yaml")
	eventually(t, settling, "cert-manager issues again", func(ctx context.Context) error {
		_, err := c.foreign(ctx, moved)
		return err
	})
	c.requests(t, moved.secret, api.IssuerExternal)
	c.rollsOut(t, moved)
	c.isFollowed(t, route)
}

// requests has moved name a Secret, and an issuer unless it is nil.
func (c *cluster) requests(t *testing.T, secret string, issuer any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		api.AnnotationSecretName: secret, api.AnnotationIssuer: issuer,
	}}})
	require.NoError(t, err)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: moved.namespace, Name: moved.service}}
	require.NoError(t, c.admin.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, patch)))
}

// removesIssued deletes the Certificate, and then its Secret.
func (c *cluster) removesIssued(t *testing.T) {
	t.Helper()
	for _, what := range []string{"certificate/" + moved.service, "secret/" + moved.secret} {
		_, err := c.run(t.Context(), c.tools.kubectl, "delete", "--namespace", moved.namespace, what)
		require.NoError(t, err)
	}
}

// isOurs fails the test unless the pods serve a certificate that servingcert issued.
func (c *cluster) isOurs(t *testing.T, s server, route handshake.Target) {
	t.Helper()
	eventually(t, propagating, "moved has a certificate of servingcert in "+s.secret, func(ctx context.Context) error {
		secret := &corev1.Secret{}
		if err := c.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.secret}, secret); err != nil {
			return err
		}
		if secret.Labels[api.LabelManagedBy] == "" {
			return fmt.Errorf("Secret %s has labels %v", s.secret, secret.Labels)
		}
		return c.isServed(ctx, route)
	})
}

// isFollowed fails the test unless the pods serve a certificate that cert-manager issued.
func (c *cluster) isFollowed(t *testing.T, route handshake.Target) {
	t.Helper()
	eventually(t, propagating, "moved has a certificate of cert-manager", func(ctx context.Context) error {
		if _, err := c.foreign(ctx, moved); err != nil {
			return err
		}
		if err := c.hasCondition(ctx, moved.namespace, moved.service, api.ConditionReady, "True", api.ReasonExternal); err != nil {
			return err
		}
		return c.isServed(ctx, route)
	})
}

// isServed returns nil if all pods of moved serve the leaf of its condition Ready, and a client got it.
func (c *cluster) isServed(ctx context.Context, route handshake.Target) error {
	leaf, err := c.currentLeaf(ctx, moved.namespace, moved.service)
	if err != nil {
		return err
	}
	if err := c.hasCondition(ctx, moved.namespace, moved.service, api.ConditionServing, "True", api.ServingCurrent); err != nil {
		return err
	}
	report, err := c.report(ctx, attentive)
	if err != nil {
		return err
	}
	if account, _ := report.Of(route); account.Latest().Leaf != leaf {
		return fmt.Errorf("moved serves leaf %s; want %s", account.Latest().Leaf, leaf)
	}
	return nil
}
