package signer

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// TestFactsAreNotChanged: caches return the facts themselves, which every decision shares.
func TestFactsAreNotChanged(t *testing.T) {
	world := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world.scene(t)
		w.openShift = seldom(t, 3, "OpenShift")
		for i, svc := range w.services {
			if rapid.Bool().Draw(t, "no room for "+svc.Name) {
				svc = api.Reduce(api.StripService(svc, Keep(svc)), api.ShareOf(0))
				delete(svc.Annotations, api.AnnotationExtraDNSNames)
				w.services[i] = svc
			}
		}
		s := w.situation()
		before := *w
		before.services = nil
		for _, svc := range w.services {
			before.services = append(before.services, svc.DeepCopy())
		}
		want := before.situation()
		d := Decide(s, ClaimOf(s))
		conditions(s, d)
		switch d.Action {
		case Create, Reissue, Replace:
			issued, err := issue.Issue(context.Background(), plainSign(), s.Authority, d.Wanted, w.now)
			require.NoError(t, err)
			content, err := d.With(s, issued)
			require.NoError(t, err)
			content.Secret(s.Key, nil)
			content.Facts(s.Secret, s.Authority)
		case Repair:
			d.Content.Patch(s.Secret)
			d.Content.Facts(s.Secret, s.Authority)
		}
		require.Equal(t, want.Asking, s.Asking)
		require.Equal(t, want.Owning, s.Owning)
		if s.Secret != nil {
			want.Secret.verified, s.Secret.verified = nil, nil // which is found out once
			require.Equal(t, want.Secret, s.Secret)
		}
	})
}

// TestReducedFactsTakeNoVerification: the cache shares them, and they have no leaf to verify.
func TestReducedFactsTakeNoVerification(t *testing.T) {
	web := service("web")
	f := FactsOf(managed(issueBy(t, testCA(t), wantedBy(web), epoch), web), api.DefaultInstance)
	reduced := f.Reduce()
	reduced.TakeVerification(f)
	assert.Equal(t, f.Reduce(), reduced)
}

// TestSizeIsWhatFactsTake: what is reserved is what the heap of a cache grows by, or up to twice
// that.
func TestSizeIsWhatFactsTake(t *testing.T) {
	web := service("web")
	issued := issueBy(t, testCA(t), wantedBy(web), epoch)
	for name, change := range map[string]func(*corev1.Secret){
		"ordinary": func(*corev1.Secret) {},
		"owners": func(s *corev1.Secret) {
			for i := range 100 {
				s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprintf("5f0e5c1e-4f3c-4a8e-9b1e-%012d", i))})
			}
		},
		"other data": func(s *corev1.Secret) {
			for i := range 60 {
				s.Data[fmt.Sprintf("%s-%d", strings.Repeat("k", 200), i)] = []byte("x")
			}
		},
		"annotations": func(s *corev1.Secret) {
			s.Annotations = map[string]string{api.AnnotationRenewedAfter: strings.Repeat("x", 200)}
		},
		"no pair": func(s *corev1.Secret) { s.Data = nil },
	} {
		const n = 500
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			return int64(stats.HeapAlloc)
		}
		kept, owners := map[string]*SecretFacts{}, map[string]string{} // as a store and its index have them
		before := heap()
		for i := range n {
			secret := managed(issued, web)
			secret.Name = fmt.Sprint("web-tls-", i)
			change(secret)
			data, err := secret.Marshal()
			require.NoError(t, err)
			var decoded corev1.Secret
			require.NoError(t, decoded.Unmarshal(data))
			f := FactsOf(&decoded, api.DefaultInstance)
			kept[f.Name] = f
			for _, r := range f.ServiceOwners() {
				owners[fmt.Sprint(r.UID, i)] = f.Name
			}
		}
		took, size := (heap()-before)/n, kept["web-tls-0"].Size()
		runtime.KeepAlive(kept)
		runtime.KeepAlive(owners)
		t.Logf("%s: %d bytes, of %d", name, took, size)
		assert.LessOrEqual(t, took, size, name)
		assert.Greater(t, 2*took, size, name)
	}
}
