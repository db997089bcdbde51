package succession

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Whatever is done to the CA Secret by hand in the middle of a succession is said,
// and stops what needs the CA, and nothing else. When it is put right, all goes on.
func TestCorruptInTheMiddle(test *testing.T) {
	t := fresh(test)
	// servingcert's own Secrets get two certificates for each corruption, one of the interim CA and
	// one when all goes on. That is more than the limit for one Secret: the last would come as much as a minute later.
	signer := start(t, "signer", "--ca-soak=1s", "--ca-reissue-window=20s", "--secret-issue-burst=0")
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)

	rotator.stop(t) // without it nothing is known to be trusted
	ask(t, "audit")
	eventually(t, "the next generation waits", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAPhase] == api.PhaseWait })
	corruptEach(t, tr, "wait", api.PhaseWait)
	rotator.Start(t)
	eventually(t, "the next generation signs", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAPhase] == api.PhaseReissue })
	corruptEach(t, tr, "reissue", api.PhaseReissue)
	signedBy(t, "2")
	tr.issuedBy(t, "2")
	require.Len(t, stored(t).Generations, 2)
	tr.requireNoFailure(t)
	assertNoKeys(t, signer.Log.String())
}

// corruptEach corrupts the CA Secret in each way and puts it right again.
func corruptEach(t *scene, tr *traffic, phase, want string) {
	t.Helper()
	good := secret(t)
	n := stored(t).Signing
	crt, key := fmt.Sprintf("generation-%d.crt", n), fmt.Sprintf("generation-%d.key", n)
	other := fmt.Sprintf("generation-%d.crt", 3-n)
	root := func(change func(*x509.Certificate)) []byte { return selfSigned(t, stored(t), n, change) }
	for i, c := range []struct {
		name, says string
		data       map[string][]byte
	}{
		{"no certificate", crt + ": must hold one certificate in PEM", map[string][]byte{crt: []byte("garbage")}},
		{"key and certificate swapped", crt + ": must hold one certificate in PEM", map[string][]byte{crt: good.Data[key], key: good.Data[crt]}},
		{"the certificates of two generations swapped", "generation-", map[string][]byte{crt: good.Data[other], other: good.Data[crt]}},
		{"no CA", crt + ": the certificate is not a CA", map[string][]byte{crt: root(func(c *x509.Certificate) { c.IsCA = false })}},
		{"ended", crt + ": ends at", map[string][]byte{crt: root(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}},
		{"no state", "state.json: must hold the JSON that servingcert writes", map[string][]byte{"state.json": []byte("{")}},
	} {
		corrupt := good.DeepCopy()
		maps.Copy(corrupt.Data, c.data)
		putBack(t, corrupt)
		said := eventually(t, c.name, func(cm *corev1.ConfigMap) bool {
			return strings.HasPrefix(cm.Data[api.CAProblem], api.CACorrupt+": ")
		})
		assert.Contains(t, said.Data[api.CAProblem], c.says, c.name)
		assert.NotEmpty(t, said.Data[api.BundleKey], "what clients trust stays")
		known, before := time.Now(), leaves(t)
		asks := fmt.Sprintf("%s-%d", phase, i)
		newService(t, asks)
		notReady(t, asks, api.CACorrupt, c.says)
		for i, leaf := range leaves(t) {
			// What is replaced then was decided before: the certificate has the time of that.
			decided := want == api.PhaseReissue && !leaf.NotBefore.Add(pki.Backdate).After(known)
			assert.True(t, leaf.Equal(before[i]) || decided, "nothing is issued")
		}
		tr.requireNoFailure(t)

		putBack(t, good)
		eventually(t, c.name+", put right", func(cm *corev1.ConfigMap) bool {
			return cm.Data[api.CAProblem] == "" && (cm.Data[api.CAPhase] == want || cm.Data[api.CAPhase] == api.PhaseRetire)
		})
		issued(t, asks)
	}
	requireSaid(t, api.CACorrupt)
	requireSaid(t, cacontroller.EventUsable)
}

// leaves are the certificates of the shop.
func leaves(t *scene) (all []*x509.Certificate) {
	t.Helper()
	for i := range services {
		all = append(all, served(t, "shop", i)[0])
	}
	return all
}

// selfSigned returns the root of a generation with a change, signed by its key.
func selfSigned(t *scene, s ca.State, number int, change func(*x509.Certificate)) []byte {
	t.Helper()
	for _, g := range s.Generations {
		if g.Number != number {
			continue
		}
		template := *g.Root
		change(&template)
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, g.Key.Public(), g.Key)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		return pki.EncodeCertificates(cert)
	}
	require.Fail(t, "no generation", number)
	return nil
}

// newService makes an annotated Service in shop that asks for Secret NAME-tls.
func newService(t *scene, name string) {
	t.Helper()
	_, err := t.admin.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func ready(t *scene, service string) *metav1.Condition {
	t.Helper()
	svc, err := t.admin.CoreV1().Services("shop").Get(t.Context(), service, metav1.GetOptions{})
	require.NoError(t, err)
	return api.Condition(svc, api.ConditionReady)
}

// notReady waits until the Service says why it has no certificate, and sees that
// it has none.
func notReady(t *scene, service, reason, says string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, says)
	}, waitFor, tick, "%s of %s; is %v", reason, service, ready(t, service))
	_, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// issued waits until the Service has its certificate.
func issued(t *scene, service string) *corev1.Secret {
	t.Helper()
	require.Eventually(t, func() bool {
		c := ready(t, service)
		return c != nil && c.Status == metav1.ConditionTrue
	}, waitFor, tick, "certificate of %s; is %v", service, ready(t, service))
	secret, err := t.admin.CoreV1().Secrets("shop").Get(t.Context(), service+"-tls", metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}
