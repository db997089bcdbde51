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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
)

// withSecrets is a controller whose cache holds a Secret for each of the pairs.
func withSecrets(t testing.TB, pairs ...signer.Issued) *Controller {
	source := fcache.NewFakeControllerSource()
	for i, issued := range pairs {
		secret := managed(issued)
		secret.Name = fmt.Sprint("s", i)
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "uid-of-web"}}
		source.Add(secret)
	}
	secrets, err := newSecretCache(source, api.DefaultInstance)
	require.NoError(t, err)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(done); _ = secrets.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, secrets.HasSynced, time.Minute, time.Millisecond)
	return &Controller{secrets: secrets, services: serviceReader{oneService{}}}
}

// oneService is a cache that holds Service web and no other object.
type oneService struct{ client.Reader }

func (oneService) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if key.Name != "web" {
		return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
	}
	service("web").DeepCopyInto(object.(*corev1.Service))
	return nil
}

// Nobody renews a Secret without an owner, so that it would be waited for without end
// before a CA counts as replaced.
func TestLeavesOfNobodyDoNotCount(t *testing.T) {
	l, wanted := generations(t, 2), wantedBy(service("web"))
	c := withSecrets(t, issue(t, l.At(epoch, 2), wanted))
	c.known.Store(l.At(epoch, 2))
	require.Len(t, c.Leaves(), 1)
	for _, owners := range [][]metav1.OwnerReference{nil, {{APIVersion: "v1", Kind: "Service", Name: "gone", UID: "1"}}, {{APIVersion: "v1", Kind: "Service", Name: "web", UID: "of-the-one-before"}}} {
		for _, f := range c.secrets.List() {
			f.OwnerReferences = owners
		}
		assert.Empty(t, c.Leaves(), "%v", owners)
	}
}

func TestLeavesByTheirIssuer(t *testing.T) {
	l, wanted := generations(t, 3), wantedBy(service("web"))
	first, second := l.At(epoch, 1), l.At(epoch, 2)
	c := withSecrets(t, issue(t, first, wanted), issue(t, second, wanted), issue(t, second, wanted), issue(t, testCA(t), wanted), signer.Issued{})
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

// BenchmarkLeaves is what one look at 10 000 certificates costs: when all is as
// it was, and after the CA has changed.
func BenchmarkLeaves(b *testing.B) {
	l := generations(b, 2)
	issued := issue(b, l.At(epoch, 1), wantedBy(service("web")))
	pairs := make([]signer.Issued, 10_000)
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
