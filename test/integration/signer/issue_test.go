package signer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func TestFirstIssue(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	svc := makeService(t, ns, "web", api.AnnotationExtraDNSNames, "a.web."+ns+".svc")
	have := r.waitGood(t, ns, "web", "web-tls")

	assert.Equal(t, corev1.SecretTypeTLS, have.secret.Type)
	assert.Len(t, have.secret.Data, 2, "tls.crt and tls.key, nothing else")
	assert.Equal(t, map[string]string{api.LabelManagedBy: r.instance}, have.secret.Labels)
	no := false
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: svc.UID, BlockOwnerDeletion: &no}}, have.secret.OwnerReferences)
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local", "a.web." + ns + ".svc"}, have.leaf.DNSNames)
	assert.Empty(t, have.leaf.IPAddresses)
	assert.Equal(t, 720*time.Hour, pki.Lifetime(have.leaf))
	assert.Empty(t, have.chain, "the root is not served, and there is nothing between")

	c := waitReady(t, ns, "web", metav1.ConditionTrue, "Issued")
	assert.Contains(t, c.Message, `Secret "web-tls": a.web.`+ns+".svc, web.")
	makeService(t, ns, "barrier", api.AnnotationDuration, "abc")
	waitEvent(t, ns, "barrier", "Warning InvalidAnnotation")
	events, err := eventsOf(t.Context(), ns, "web")
	require.NoError(t, err)
	assert.Empty(t, events, "a first issue is told of by the condition alone")
}

// The name of a Service may begin with a digit, since Kubernetes 1.36.
func TestANameThatBeginsWithADigit(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), harness.Service(ns, "1web"), metav1.CreateOptions{})
	if apierrors.IsInvalid(err) {
		return // an older one has no such Services
	}
	require.NoError(t, err)
	have := r.waitGood(t, ns, "1web", "1web-tls")
	assert.ElementsMatch(t, []string{"1web." + ns + ".svc", "1web." + ns + ".svc.cluster.local"}, have.leaf.DNSNames)
}

// A post-quantum key is issued under the same CA, and a Go client and server of today use it.
func TestAPostQuantumKey(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationKeyAlgorithm, "MLDSA65")
	have := r.waitGood(t, ns, "web", "web-tls")
	algorithm, _ := pki.AlgorithmOf(have.leaf.PublicKey)
	assert.Equal(t, pki.MLDSA65, algorithm)
	assert.NotContains(t, have.leaf.SignatureAlgorithm.String(), "ML-DSA", "the CA is another")
	pair, err := tls.X509KeyPair(have.secret.Data[corev1.TLSCertKey], have.secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	bundle, err := r.bundle(t.Context())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	handshake := func(version uint16) error {
		client, server := net.Pipe()
		defer func() { _, _ = client.Close(), server.Close() }()
		go func() {
			_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}).HandshakeContext(t.Context())
			_ = server.Close()
		}()
		return tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "web." + ns + ".svc", MaxVersion: version}).HandshakeContext(t.Context())
	}
	require.NoError(t, handshake(tls.VersionTLS13))
	require.Error(t, handshake(tls.VersionTLS12))

	_, err = admin.CoreV1().Services(ns).Create(t.Context(), harness.Service(ns, "java", api.AnnotationKeyAlgorithm, "MLDSA44", api.AnnotationFormats, "keystore.p12"), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Contains(t, waitReady(t, ns, "java", metav1.ConditionFalse, "InvalidAnnotation").Message, "keystore.p12 cannot be made of a key of type MLDSA44")
}

// For a Service whose pods have certificates of another signer, nothing is issued, and the condition says so.
func TestPodKeysOfAnotherSigner(t *testing.T) {
	sharedSigner(t)
	ns := newNamespace(t)
	web := harness.Service(ns, "web", api.AnnotationKeySource, "pod", api.AnnotationIssuer, "external")
	delete(web.Annotations, api.AnnotationSecretName)
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), web, metav1.CreateOptions{})
	require.NoError(t, err)
	ready := waitReady(t, ns, "web", metav1.ConditionTrue, api.ReasonExternal)
	assert.Contains(t, ready.Message, "another signer issues its certificate: nothing is issued here")
	require.NoError(t, secretGone(t, ns, "web-tls"))
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "24h"})
	refused := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	assert.Contains(t, refused.Message, "is about certificates that servingcert issues")
}

// Other writers of Service status (the rotator, load balancers) keep theirs.
func TestConditionsOfOthersStay(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	web := harness.Service(ns, "web", api.AnnotationDuration, "abc")
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), web, metav1.CreateOptions{})
	require.NoError(t, err)
	waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
	body := `{"status":{"conditions":[{"type":"servingcert.dev/Serving","status":"False","reason":"Stale","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}],"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`
	_, err = admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: nil})
	r.waitGood(t, ns, "web", "web-tls")
	svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, svc.Status.Conditions, 3, "the other's, and Ready with its state")
	assert.Equal(t, "Stale", api.Condition(svc, api.ConditionServing).Reason)
	assert.Equal(t, "192.0.2.7", svc.Status.LoadBalancer.Ingress[0].IP)
}

func TestOptIn(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	unlabelled := newName(t)
	makeNamespace(t, unlabelled, nil)
	makeService(t, unlabelled, "web")
	makeService(t, ns, "web")
	first := r.waitGood(t, ns, "web", "web-tls")
	require.NoError(t, secretGone(t, unlabelled, "web-tls"))
	svc, err := admin.CoreV1().Services(unlabelled).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, api.Condition(svc, api.ConditionReady), "what is not opted in gets no word")

	label := func(namespace string, value any) {
		_, err := admin.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, metadataPatch(t, "labels", map[string]any{api.LabelInject: value}), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label(unlabelled, api.InjectEnabled)
	r.waitGood(t, unlabelled, "web", "web-tls")

	label(ns, nil)
	c := waitReady(t, ns, "web", metav1.ConditionTrue, "Retained")
	assert.Contains(t, c.Message, "no longer has label")
	makeService(t, ns, "later")
	patchSecret(t, ns, "web-tls", map[string]any{"data": map[string]any{corev1.TLSPrivateKeyKey: ""}})
	c = waitReady(t, ns, "web", metav1.ConditionFalse, api.ReasonNotOptedIn)
	assert.Contains(t, c.Message, "nothing is issued until the namespace has the label", "a leaf without its key shows nothing: anybody can have it")
	require.NoError(t, secretGone(t, ns, "later-tls"), "new work stops")
	label(ns, api.InjectEnabled)
	r.waitGood(t, ns, "web", "web-tls", first.fingerprint())
}

// RenewAfter is a time: once that is there, what was issued before is replaced,
// and only once.
func TestRenewAfter(t *testing.T) {
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web")
	first := r.waitGood(t, ns, "web", "web-tls")
	// Not before the next second: a certificate tells its time no finer.
	at := pki.IssuedAt(first.leaf).Add(2 * time.Second)
	annotate(t, ns, "web", map[string]any{api.AnnotationRenewAfter: at.Format(time.RFC3339)})
	second := r.waitGood(t, ns, "web", "web-tls", first.fingerprint())
	assert.False(t, pki.IssuedAt(second.leaf).Before(at), "nor before it was asked for")
	assert.NotEqual(t, first.secret.Data[corev1.TLSPrivateKeyKey], second.secret.Data[corev1.TLSPrivateKeyKey], "a new key (invariant 5)")
	assert.Equal(t, first.secret.UID, second.secret.UID)
	waitEvent(t, ns, "web", fmt.Sprintf(`Normal CertificateReissued: RenewRequested: Secret "web-tls" has a new certificate: renewal was requested for certificates issued before %s`, at.Format(time.RFC3339)))

	annotate(t, ns, "web", map[string]any{"touched": "yes"})
	makeService(t, ns, "barrier")
	r.waitGood(t, ns, "barrier", "barrier-tls")
	assert.Equal(t, second.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)
}

// A certificate of 15 minutes is renewed when its time has come, by the signer's own timer:
// no object is touched meanwhile. The signer starts two seconds before that time.
func TestACertificateIsRenewedByItsOwnTimer(t *testing.T) {
	d, shortest := newDeployment(t), func(l *api.Limits) { l.MinDuration = 15 * time.Minute }
	first, err := here(d, options{limits: shortest})
	require.NoError(t, err)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationDuration, "15m")
	issued := first.waitGood(t, ns, "web", "web-tls")
	require.Equal(t, 15*time.Minute, pki.Lifetime(issued.leaf))
	finish(t, first)

	due := &harness.Clock{}
	due.Set(pki.RenewAt(issued.leaf).Add(-2 * time.Second))
	second := startHere(t, d, options{limits: shortest, clock: due})
	renewed := second.waitGood(t, ns, "web", "web-tls", issued.fingerprint())
	assert.False(t, pki.IssuedAt(renewed.leaf).Before(pki.RenewAt(issued.leaf).Truncate(time.Second)), "not when the signer started")
	assert.NotEqual(t, issued.leaf.PublicKey, renewed.leaf.PublicKey)
}

// As README.md types it.
func TestKubectlWaitsForReady(t *testing.T) {
	kubectl := harness.Kubectl(t)
	r := sharedSigner(t)
	ns := newNamespace(t)
	makeService(t, ns, "web", api.AnnotationSecretName, "A_B") // not a valid name
	answer := harness.KubectlWait(t, kubectl, plane.KubeconfigFile(), api.ConditionReady, ns)
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "web-tls"})
	answer()
	getSecret(t, ns, "web-tls") // is there before the condition says so
	r.waitGood(t, ns, "web", "web-tls")
}
