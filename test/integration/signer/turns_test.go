package signer

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// gate signs, and in one namespace under one CA only as many certificates as it gets permits for.
type gate struct {
	sign      issue.Sign
	namespace string
	ca        *generation
	permit    chan struct{}

	mu    sync.Mutex
	asked []string // first DNS names of the certificates that need a permit, in order
}

func (g *gate) signOne(ctx context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
	if ca.Key == g.ca.key && strings.HasSuffix(request.DNSNames[0], "."+g.namespace+".svc") {
		g.mu.Lock()
		g.asked = append(g.asked, request.DNSNames[0])
		g.mu.Unlock()
		select {
		case <-g.permit:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return g.sign(ctx, ca, request)
}

func (g *gate) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

// While all certificates of a namespace are being replaced, a Service that is made in it,
// and a Secret that is deleted, wait for those that are being signed and for no other.
func TestNobodyWaitsBehindRenewals(t *testing.T) {
	const n = 40
	ns, other := newNamespace(t), newNamespace(t)
	nameOf := func(service string) string { return service + "." + ns + ".svc" }
	constraints := api.DefaultLimits().Constraints()
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	first, second := newGeneration(t, 1, constraints, nil), newGeneration(t, 2, constraints, nil)
	h := &held{changed: make(chan struct{})}
	h.ca.Store(first.signing())
	g := &gate{sign: sign, namespace: ns, ca: second, permit: make(chan struct{})}
	_, issuer := startUnder(t, h, g.signOne, api.DefaultLimits(), nil)
	makeService(t, other, "web")
	for i := range n {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	theirs := waitServed(t, other, "web", "web-tls", first.signing()).fingerprint()
	for i := range n {
		waitReady(t, ns, fmt.Sprintf("web-%d", i), metav1.ConditionTrue, "Issued")
	}

	h.set(second.signing())
	harness.Eventually(t, func() error {
		const want = heldWorkers - 1 // one worker is left to other tenants
		if asked := len(g.names()); asked != want {
			return fmt.Errorf("%d certificates are being signed, want %d", asked, want)
		}
		return nil
	})
	theirs = waitServed(t, other, "web", "web-tls", second.signing(), theirs).fingerprint()
	deleted := ""
	for i := range n {
		if name := fmt.Sprintf("web-%d", i); !slices.Contains(g.names(), nameOf(name)) {
			deleted = name
		}
	}
	makeService(t, ns, "new")
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), deleted+"-tls", metav1.DeleteOptions{}))

	// The caches hear of changes in their order: of both before the same changes of another tenant, which has its answer.
	makeService(t, other, "new")
	require.NoError(t, admin.CoreV1().Secrets(other).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	waitServed(t, other, "new", "new-tls", second.signing())
	waitServed(t, other, "web", "web-tls", second.signing(), theirs)
	var order []string
	for order = g.names(); !slices.Contains(order, nameOf("new")) || !slices.Contains(order, nameOf(deleted)); order = g.names() {
		g.permit <- struct{}{}
	}
	assert.Less(t, len(order), n, "of %d others, some wait behind both", n-1)
	close(g.permit)
	for _, name := range []string{"new", deleted} {
		waitServed(t, ns, name, name+"-tls", second.signing())
	}

	// One whose renewal comes due waits like those of a change of the CA.
	result, err := issuer.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: "new-tls"}})
	require.NoError(t, err)
	assert.Positive(t, result.RequeueAfter)
	assert.Equal(t, new(ratelimit.PriorityRenewal), result.Priority)
}
