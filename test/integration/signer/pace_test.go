package signer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/keymaterial"
)

func TestASecretThatIsDeletedInALoopIsIssuedAFewTimes(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startProcess(t, d, "--secret-issue-burst=3", "--secret-issue-interval=1h")
	makeService(t, ns, "web")
	var seen []string
	for range 3 {
		seen = append(seen, r.waitGood(t, ns, "web", "web-tls", seen...).fingerprint())
		require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	}
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "RateLimited")
	assert.Contains(t, c.Message, "the limit for one Secret is reached (3 at once, then one every 1h0m0s); the next one for this Secret is issued at ")

	// Whatever it is told, the signer says the same and issues nothing.
	annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	makeService(t, ns, "api")
	other := r.waitGood(t, ns, "api", "api-tls").fingerprint()
	assert.Equal(t, c, waitReady(t, ns, "web", metav1.ConditionFalse, "RateLimited"))
	issued, _ := r.metric(`servingcert_certificates_issued_total{reason="SecretMissing"}`)
	assert.Equal(t, "2", issued)

	// The limit is that of one name.
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "another-tls"})
	r.waitGood(t, ns, "web", "another-tls", append(seen, other)...)
}

func TestACertificateThatWorksWaitsSilently(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startProcess(t, d, "--namespace-reissue-burst=1", "--namespace-reissue-interval=1h")
	makeService(t, ns, "web")
	makeService(t, ns, "api")
	web := r.waitGood(t, ns, "web", "web-tls").fingerprint()
	r.waitGood(t, ns, "api", "api-tls")
	before := waitReady(t, ns, "api", metav1.ConditionTrue, "Issued")
	annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	r.waitGood(t, ns, "web", "web-tls", web)

	annotate(t, ns, "api", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	makeService(t, ns, "later")
	r.waitGood(t, ns, "later", "later-tls") // a first issue does not wait
	assert.Equal(t, before, waitReady(t, ns, "api", metav1.ConditionTrue, "Issued"))
	annotate(t, ns, "api", map[string]any{api.AnnotationDuration: "abc"})
	waitReady(t, ns, "api", metav1.ConditionFalse, "InvalidAnnotation")
	annotate(t, ns, "api", map[string]any{api.AnnotationDuration: nil})
	c := waitReady(t, ns, "api", metav1.ConditionFalse, "RateLimited")
	assert.Contains(t, c.Message, "the limit for one namespace is reached (1 at once, then one every 1h0m0s)")
}

// What a tenant has the signer look at as often as it can, in a namespace without the label, does not keep the
// certificate of another from being issued, before and after a restart: keys with huge numbers, keystores that ask for
// work without end, and one Service that owns many Secrets. With build tag long, it takes at most twice as long as
// undisturbed, and two seconds.
func TestABombHoldsUpNobody(t *testing.T) {
	d, evil, shop := newDeployment(t), newName(t), newNamespace(t)
	makeNamespace(t, evil, nil)
	r := startProcess(t, d)
	issued := func(name string) time.Duration {
		begun := time.Now()
		makeService(t, shop, name, api.AnnotationSecretName, name)
		r.waitGood(t, shop, name, name)
		took := time.Since(begun).Round(time.Millisecond)
		t.Logf("Service %s has its certificate after %s", name, took)
		return took
	}
	restart := func() {
		require.NoError(t, r.stop())
		r = startProcess(t, d)
	}
	undisturbed := issued("first-tls")
	restart()
	undisturbed = max(undisturbed, issued("second-tls"))
	owner := makeService(t, evil, "owner")
	cert, key := keymaterial.SelfSigned("a", 1)
	hugeKey, keystore := keymaterial.AbsurdKey(5<<10), keymaterial.Keystore(formats.DefaultPassword, 1<<60)
	const bombs = 40
	for i := range bombs {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("bomb-", i), Labels: map[string]string{api.LabelManagedBy: r.instance},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: owner.Name, UID: owner.UID}},
			},
			Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, formats.KeystoreFile: keystore},
		}
		if i%2 == 0 {
			secret.Data[corev1.TLSPrivateKeyKey] = hugeKey
		}
		_, err := admin.CoreV1().Secrets(evil).Create(t.Context(), secret, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	defer attack.Wait()
	defer stop()
	attack.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
			_, _ = admin.CoreV1().Secrets(evil).Patch(ctx, fmt.Sprint("bomb-", n%bombs), types.MergePatchType, patch, metav1.PatchOptions{})
			_, _ = admin.CoreV1().Services(evil).Patch(ctx, owner.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	})
	for _, name := range []string{"web", "api", "restarted"} {
		if name == "restarted" {
			restart()
		}
		if took := issued(name); bounded.Long {
			assert.Less(t, took, 2*undisturbed+2*time.Second, name)
		}
	}
}
