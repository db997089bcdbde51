package signer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A clock behind the CA's NotBefore would sign what is not valid yet.
func TestClockBehindTheCA(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startHere(t, d, options{})
	makeService(t, ns, "web")
	first := r.waitGood(t, ns, "web", "web-tls")
	require.NoError(t, r.stop())

	c := &harness.Clock{}
	c.Set(time.Now().Add(-time.Hour))
	r = startHere(t, d, options{clock: c})
	makeService(t, ns, "later")
	condition := waitReady(t, ns, "later", metav1.ConditionFalse, "CANotYetValid")
	assert.Contains(t, condition.Message, "in the future by the clock of this machine")
	assert.Contains(t, r.log.String(), "CANotYetValid")
	waitReady(t, ns, "web", metav1.ConditionTrue, "Issued") // it has a certificate
	require.NoError(t, secretGone(t, ns, "later-tls"))

	c.Set(time.Now())
	patchSecret(t, d.namespace, api.CASecretName, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"touched": "yes"}}})
	r.waitGood(t, ns, "later", "later-tls")
	require.Equal(t, first.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)
}

// pauseCollector holds garbage collector and namespace controller until the test
// is over.
func pauseCollector(t *testing.T) {
	pid := plane.PIDs()[controlplane.KubeControllerManager]
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	t.Cleanup(func() { require.NoError(t, syscall.Kill(pid, syscall.SIGCONT)) })
}

// A Service deleted and made again before the garbage collector has looked: the
// Secret is the one before's, and works at once.
func TestServiceMadeAgainBeforeTheCollectorLooks(t *testing.T) {
	pauseCollector(t)
	d := newDeployment(t)
	r := startHere(t, d, options{})
	unlabelled := map[string]any{"metadata": map[string]any{"labels": nil}}
	immutable := map[string]any{"immutable": true}
	for i, c := range []struct {
		name     string
		patches  []map[string]any
		headless bool // and so another certificate
	}{
		{"as it was", nil, false},
		{"label stripped, headless", []map[string]any{unlabelled}, true},
		{"immutable, label stripped, headless", []map[string]any{immutable, unlabelled}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := fmt.Sprintf("made-again-%d-%s", i, d.instance)
			makeNamespace(t, ns, optedIn)
			makeService(t, ns, "web")
			first := r.waitGood(t, ns, "web", "web-tls")
			patchSecret(t, ns, "web-tls", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": "mine"}}})
			require.NoError(t, admin.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			for _, patch := range c.patches {
				patchSecret(t, ns, "web-tls", patch)
			}
			svc := harness.Service(ns, "web")
			if c.headless {
				svc.Spec.ClusterIP = corev1.ClusterIPNone
			}
			svc, err := admin.CoreV1().Services(ns).Create(t.Context(), svc, metav1.CreateOptions{})
			require.NoError(t, err)
			have := r.waitGood(t, ns, "web", "web-tls")
			require.Len(t, have.secret.OwnerReferences, 1)
			require.Equal(t, map[string]string{"note": "mine", api.AnnotationIssuedLeaf: have.fingerprint()}, have.secret.Annotations)
			require.Equal(t, svc.UID, have.secret.OwnerReferences[0].UID)
			require.Equal(t, c.headless, first.fingerprint() != have.fingerprint())
		})
	}
}

// Two signers at once, with leader election off: what must hold even if election
// fails. One CA, one certificate for each Service, and rest.
func TestTwoSignersAtOnce(t *testing.T) {
	const n = 30
	d, ns := newDeployment(t), newNamespace(t)
	for i := range n / 2 {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	both := []*running{startProcess(t, d), startProcess(t, d)}
	for i := n / 2; i < n; i++ {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		both[0].waitGood(t, ns, name, name+"-tls")
	}
	bundle, err := both[0].bundle(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(bundle), "BEGIN CERTIFICATE"), "one CA")

	issued := func() (sum int) {
		for _, r := range both {
			for _, reason := range []string{"FirstIssue", "SecretMissing", "SignedByOtherCA", "NamesChanged"} {
				var n int
				if value, ok := r.metric(`servingcert_certificates_issued_total{reason="` + reason + `"}`); ok {
					_, err := fmt.Sscan(value, &n)
					require.NoError(t, err)
				}
				sum += n
			}
		}
		return sum
	}
	harness.Eventually(t, func() error { // one is counted after it was written, and the other may have said so first
		if got := issued(); got < n {
			return fmt.Errorf("%d of %d were counted", got, n)
		}
		return nil
	})
	waitRest(t, ns)
	require.Equal(t, n, issued(), "one certificate for each Service, whoever was first")
	for _, r := range both {
		_, body, err := harness.Get(context.Background(), r.metrics)
		require.NoError(t, err)
		for _, reason := range []string{"WriteRefused", "WriteFailed", "SigningFailed", "SecretConflict"} {
			require.NotContains(t, body, fmt.Sprintf(`servingcert_issue_failures_total{namespace=%q,reason=%q}`, ns, reason), "the other's being first is no failure")
		}
	}
}

// The API server goes away while certificates are being replaced, and the signer goes on where
// it was once that is back.
func TestAPIServerAwayForAWhile(t *testing.T) {
	ns := newNamespace(t)
	constraints := api.DefaultLimits().Constraints()
	before, next := newGeneration(t, 1, constraints, nil), newGeneration(t, 2, constraints, nil)
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	h := &held{changed: make(chan struct{})}
	h.ca.Store(before.signing())
	r, _ := startUnder(t, h, sign, api.DefaultLimits(), nil)
	makeService(t, ns, "web")
	first := waitServed(t, ns, "web", "web-tls", before.signing())

	plane.StopAPIServer()
	t.Cleanup(func() { _ = plane.StartAPIServer(context.Background()) }) // an error if it runs
	h.set(next.signing())
	harness.Eventually(t, func() error { // it tried, and could not
		if r.value(t, "servingcert_issue_failures_total", "namespace", ns, "reason", "WriteFailed") == 0 {
			return errors.New("no failure is counted")
		}
		return nil
	})
	require.NoError(t, plane.StartAPIServer(t.Context()))
	second := waitServed(t, ns, "web", "web-tls", next.signing(), first.fingerprint())
	assert.Equal(t, first.secret.UID, second.secret.UID)
	makeService(t, ns, "later")
	waitServed(t, ns, "later", "later-tls", next.signing())
}

// caSecret changes the CA Secret by a merge patch.
func caSecret(t *testing.T, d deployment, patch string) {
	_, err := admin.CoreV1().Secrets(d.namespace).Patch(t.Context(), api.CASecretName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// A CA that is lost or spoiled: nothing is signed, everything says so, what is
// there stays as it is, and no new CA is made. Restored, it goes on.
func TestCALost(t *testing.T) {
	for i, c := range []struct {
		name, reason string
		lose         func(t *testing.T, d deployment)
		restart      bool
	}{
		{"gone", "CALost", func(t *testing.T, d deployment) {
			require.NoError(t, admin.CoreV1().Secrets(d.namespace).Delete(t.Context(), api.CASecretName, metav1.DeleteOptions{}))
		}, false},
		{"gone while it was down, the status too", "CALost", func(t *testing.T, d deployment) {
			require.NoError(t, admin.CoreV1().Secrets(d.namespace).Delete(t.Context(), api.CASecretName, metav1.DeleteOptions{}))
			require.NoError(t, admin.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), api.CAStatusName, metav1.DeleteOptions{}))
		}, true},
		{"emptied", "CALost", func(t *testing.T, d deployment) { caSecret(t, d, `{"data":null}`) }, false},
		{"corrupt", "CACorrupt", func(t *testing.T, d deployment) { caSecret(t, d, `{"data":{"generation-1.key":"eA=="}}`) }, false},
		{"key removed", "CACorrupt", func(t *testing.T, d deployment) { caSecret(t, d, `{"data":{"generation-1.key":null}}`) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDeployment(t)
			ns := fmt.Sprintf("ca-lost-%d-%s", i, d.instance)
			makeNamespace(t, ns, optedIn)
			r := startProcess(t, d)
			makeService(t, ns, "web")
			first := r.waitGood(t, ns, "web", "web-tls")
			backup := getSecret(t, d.namespace, api.CASecretName)
			if c.restart {
				require.NoError(t, r.stop())
			}
			c.lose(t, d)
			if c.restart {
				r = startProcess(t, d)
			}
			problem := `servingcert_ca_problem{ca="serving",reason="` + c.reason + `"}`
			harness.Eventually(t, func() error {
				if value, _ := r.metric(problem); value != "1" {
					return fmt.Errorf("%s is %q", problem, value)
				}
				return nil
			})
			status, body, err := harness.Get(context.Background(), r.ready)
			require.NoError(t, err)
			assert.Equal(t, http.StatusInternalServerError, status, body)
			harness.Eventually(t, func() error { // it is copied a moment later
				if said := r.log.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, c.reason+": Secret servingcert-ca ") {
					return fmt.Errorf("the log does not say so")
				}
				return nil
			})
			makeService(t, ns, "later")
			said := waitReady(t, ns, "later", metav1.ConditionFalse, c.reason)
			assert.Contains(t, said.Message, "Restore")
			waitEvent(t, ns, "later", "Warning "+c.reason+": ")
			patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: ""}})
			waitReady(t, ns, "web", metav1.ConditionFalse, c.reason)
			require.NoError(t, secretGone(t, ns, "later-tls"))
			requireNoCA(t, d)

			backup.ResourceVersion, backup.UID = "", ""
			secrets := admin.CoreV1().Secrets(d.namespace)
			if _, err := secrets.Create(t.Context(), backup, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
				_, err = secrets.Update(t.Context(), backup, metav1.UpdateOptions{})
				require.NoError(t, err)
			} else {
				require.NoError(t, err)
			}
			r.waitGood(t, ns, "later", "later-tls")
			second := r.waitGood(t, ns, "web", "web-tls", first.fingerprint())
			require.NoError(t, second.leaf.CheckSignatureFrom(rootOf(t, r)))
			require.NoError(t, first.leaf.CheckSignatureFrom(rootOf(t, r)), "the CA is the one before")
			status, _, err = harness.Get(context.Background(), r.ready)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
		})
	}
}

// requireNoCA: what is in the CA Secret, if anything, is not a CA that works.
func requireNoCA(t *testing.T, d deployment) {
	secret, err := admin.CoreV1().Secrets(d.namespace).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(t, err)
	require.Less(t, len(secret.Data["generation-1.key"]), 10)
}

func rootOf(t *testing.T, r *running) *x509.Certificate {
	bundle, err := r.bundle(t.Context())
	require.NoError(t, err)
	roots, err := pki.ParseCertificates(bundle)
	require.NoError(t, err)
	require.Len(t, roots, 1)
	return roots[0]
}
