package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// withSecrets is a controller whose caches hold Service web, and a Secret of it for each of
// the pairs.
func withSecrets(t testing.TB, pairs ...issue.Issued) *Controller {
	return withOwned(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "uid-of-web"}}, pairs...)
}

func withOwned(t testing.TB, owners []metav1.OwnerReference, pairs ...issue.Issued) *Controller {
	source, services := fcache.NewFakeControllerSource(), fcache.NewFakeControllerSource()
	for i, issued := range pairs {
		secret := managed(issued)
		secret.Name = fmt.Sprint("s", i)
		secret.OwnerReferences = owners
		source.Add(secret)
	}
	services.Add(service("web"))
	secretCache, err := facts.NewInformerOf(source, secretOptions(api.DefaultInstance))
	require.NoError(t, err)
	serviceCache, err := facts.NewInformerOf(services, serviceOptions(false))
	require.NoError(t, err)
	kept := newKeptSecrets()
	secretCache.Handle(kept.change)
	start(t, secretCache)
	start(t, serviceCache)
	return &Controller{config: Config{Clock: time.Now}, secrets: secretCache, kept: kept, services: &Services{serviceCache}, fanOut: facts.NewFanOut("test")}
}

// start fills the informer.
func start[T facts.Object](t testing.TB, informer *facts.Informer[T]) {
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(done); _ = informer.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, informer.HasSynced, process.Soon, time.Millisecond)
}

// A Secret without an owner is not renewed, so the replacement of a CA would wait for it
// forever.
func TestLeavesWithoutOwnerAreNotCounted(t *testing.T) {
	l, wanted := generations(t, 2), wantedBy(service("web"))
	issued := issueBy(t, l.At(epoch, 2), wanted)
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		want   int
	}{
		"its Service":         {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "uid-of-web"}}, 1},
		"nobody":              {nil, 0},
		"one that is gone":    {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "gone", UID: "1"}}, 0},
		"the one before it":   {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "of-the-one-before"}}, 0},
		"something of a kind": {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "uid-of-web"}}, 0},
	} {
		controller := withOwned(t, c.owners, issued)
		controller.known.Store(l.At(epoch, 2))
		assert.Len(t, controller.Leaves(), c.want, name)
	}
}

func TestLeavesByTheirIssuer(t *testing.T) {
	l, wanted := generations(t, 3), wantedBy(service("web"))
	first, second := l.At(epoch, 1), l.At(epoch, 2)
	c := withSecrets(t, issueBy(t, first, wanted), issueBy(t, second, wanted), issueBy(t, second, wanted), issueBy(t, testCA(t), wanted), issue.Issued{})
	assert.Nil(t, c.Leaves(), "of a replica that does not lead nothing is known")
	for _, signing := range []int{2, 3} {
		c.known.Store(l.At(epoch, signing))
		assert.Equal(t, map[string]int{pki.Fingerprint(l.Roots[0]): 1, pki.Fingerprint(l.Roots[1]): 2, "": 1}, c.Leaves())
	}
	c.known.Store(first)
	assert.Equal(t, map[string]int{pki.Fingerprint(l.Roots[0]): 1, "": 3}, c.Leaves())

	c.known.Store(second)
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(newExpiry(c)))
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP servingcert_certificates Certificates in managed Secrets, by the common name of the CA that signed them; empty for an unknown one.
# TYPE servingcert_certificates gauge
servingcert_certificates{issuer=""} 1
servingcert_certificates{issuer=%q} 1
servingcert_certificates{issuer=%q} 2
`, l.Roots[0].Subject.CommonName, l.Roots[1].Subject.CommonName)), "servingcert_certificates"))
}

// BenchmarkLeaves measures Leaves with 10 000 certificates, with the same CA and after a change of
// the CA.
func BenchmarkLeaves(b *testing.B) {
	l := generations(b, 2)
	issued := issueBy(b, l.At(epoch, 1), wantedBy(service("web")))
	pairs := make([]issue.Issued, 10_000)
	for i := range pairs {
		pairs[i] = issued
	}
	c := withSecrets(b, pairs...)
	for name, change := range map[string]bool{"the same CA": false, "another CA": true} {
		b.Run(name, func(b *testing.B) {
			c.known.Store(l.At(epoch, 2))
			c.Leaves()
			for b.Loop() {
				if change {
					c.known.Store(l.At(epoch, 2))
				}
				c.Leaves()
			}
		})
	}
}
