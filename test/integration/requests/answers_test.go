package requests

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/skip"
)

// A pod gets the names of its Services that it asks for, as it asks for them.
func TestAPodGetsWhatItAsksFor(t *testing.T) {
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	pod, key := newPod(t, ns, "web-1", "web"), newKey(t)
	name := "web." + ns + ".svc"
	seconds := int32(3600)
	leaf := issued(t, ask(t, tokenOf(t, ns, pod), requestFor(pkcs10(t, key, []string{name}, func(r *x509.CertificateRequest) {
		r.Subject.CommonName = name
	}), func(o *certificatesv1.CertificateSigningRequest) { o.Spec.ExpirationSeconds = &seconds })), key)
	assert.Equal(t, []string{name}, leaf.DNSNames)
	assert.Equal(t, "CN="+name, leaf.Subject.String())
	assert.Equal(t, time.Hour+pki.Backdate, pki.Lifetime(leaf))
	secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, secrets.Items)
}

// A host or a person needs verb serve on the Service.
func TestAHostNeedsAGrant(t *testing.T) {
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web", func(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone })
	names := []string{"*.web." + ns + ".svc", "web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}
	key := newKey(t)
	leaf := issued(t, ask(t, host(t, ns, "web"), requestFor(pkcs10(t, key, names))), key)
	assert.Equal(t, names, leaf.DNSNames)
	assert.Equal(t, 24*time.Hour, pki.Lifetime(leaf))

	_, condition := answerTo(t, ask(t, host(t, ns, "other"), requestFor(pkcs10(t, key, names[1:]))))
	assert.Equal(t, certificatesv1.CertificateDenied, condition.Type)
	assert.Equal(t, "NotPermitted", condition.Reason)
	assert.Contains(t, condition.Message, fmt.Sprintf(`lacks verb "serve" on services.servingcert.dev "web" in namespace %q`, ns))
}

// A name that does not say of which Service it is belongs to those that ask for it. Here
// the CA does not permit it yet.
func TestExtraNames(t *testing.T) {
	startSigner(t, "--permit-dns-suffix=shop-*=apps.example.com")
	ns := newNamespace(t, true)
	extra := ns + ".apps.example.com"
	newService(t, ns, "web", func(svc *corev1.Service) { svc.Annotations[api.AnnotationExtraDNSNames] = extra })
	data := pkcs10(t, newKey(t), []string{extra})
	assert.Contains(t, saidOf(t, ask(t, host(t, ns, "web"), requestFor(data)), "WaitingForTrust"), extra)
	_, condition := answerTo(t, ask(t, host(t, ns), requestFor(data)))
	assert.Equal(t, "NotPermitted", condition.Reason)
	assert.NotContains(t, condition.Message, "web", "whose the name is, is not said")
}

// Openssl makes the key and the request, as a program without a library for that does.
func TestARequestOfOpenSSL(t *testing.T) {
	skip.WithoutPrograms(t, "openssl")
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	d := t.TempDir()
	keyFile, csrFile := filepath.Join(d, "tls.key"), filepath.Join(d, "tls.csr")
	out, err := exec.Command("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", keyFile, "-out", csrFile,
		"-subj", "/CN=web."+ns+".svc", "-addext", "subjectAltName=DNS:web."+ns+".svc,DNS:web."+ns+".svc.cluster.local").CombinedOutput()
	require.NoError(t, err, string(out))
	data, err := os.ReadFile(csrFile)
	require.NoError(t, err)
	keyPEM, err := os.ReadFile(keyFile)
	require.NoError(t, err)
	key, err := pki.ParseForeignKey(keyPEM)
	require.NoError(t, err)
	leaf := issued(t, ask(t, host(t, ns, "web"), requestFor(data, func(o *certificatesv1.CertificateSigningRequest) {
		o.Spec.Usages = append(o.Spec.Usages, certificatesv1.UsageKeyEncipherment)
	})), key)
	assert.Equal(t, "CN=web."+ns+".svc", leaf.Subject.String())
	assert.Len(t, leaf.DNSNames, 2)
}

// Nobody gets what is not theirs, and the reason is in the request.
func TestAttempts(t *testing.T) {
	startSigner(t)
	ns, other := newNamespace(t, true), newNamespace(t, true)
	newService(t, ns, "web")
	newService(t, ns, "api")
	newService(t, other, "web")
	pod := tokenOf(t, ns, newPod(t, ns, "web-1", "web"))
	key, own := newKey(t), "web."+ns+".svc"
	for name, c := range map[string]struct {
		as     kubernetes.Interface
		data   []byte
		reason string
	}{
		"another Service":        {pod, pkcs10(t, key, []string{own, "api." + ns + ".svc"}), "NotPermitted"},
		"another namespace":      {pod, pkcs10(t, key, []string{"web." + other + ".svc"}), "NotPermitted"},
		"an organization":        {pod, pkcs10(t, key, []string{own}, func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), "InvalidName"},
		"an unbound token":       {tokenOf(t, ns, nil), pkcs10(t, key, []string{own}), "NotPermitted"},
		"a token of another pod": {tokenOf(t, ns, newPod(t, ns, "api-1", "api")), pkcs10(t, key, []string{own}), "NotPermitted"},
		"a host without a right": {host(t, ns), pkcs10(t, key, []string{own}), "NotPermitted"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ask(t, c.as, requestFor(c.data))
			answered, condition := answerTo(t, o)
			assert.Equal(t, certificatesv1.CertificateDenied, condition.Type)
			assert.Equal(t, c.reason, condition.Reason, condition.Message)
			assert.Empty(t, answered.Status.Certificate)
			assert.Equal(t, condition.Message, saidOf(t, o, c.reason))
		})
	}
}

// A request that was approved, by hand or by a signer that stopped then, is decided again:
// what is signed is what is right when it is signed.
func TestApprovedRequestsAreDecidedAgain(t *testing.T) {
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	key := newKey(t)
	good := approve(t, ask(t, host(t, ns, "web"), requestFor(pkcs10(t, key, []string{"web." + ns + ".svc"}))))
	bad := approve(t, ask(t, host(t, ns), requestFor(pkcs10(t, key, []string{"web." + ns + ".svc"}))))
	startSigner(t)
	issued(t, good, key)
	answered, condition := answerTo(t, bad)
	assert.Equal(t, certificatesv1.CertificateFailed, condition.Type)
	assert.Equal(t, "NotPermitted", condition.Reason)
	require.Len(t, answered.Status.Conditions, 2)
	assert.Equal(t, "ByHand", answered.Status.Conditions[0].Reason)
	assert.Empty(t, answered.Status.Certificate)
}

// With --csr=false a request stays as it is while the signer works.
func TestOff(t *testing.T) {
	startSigner(t, "--csr=false")
	ns := newNamespace(t, true)
	o := ask(t, host(t, ns), requestFor(pkcs10(t, newKey(t), []string{"www.example.com"})))
	newService(t, ns, "web", hasSecret("web-tls"))
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(ns).Get(t.Context(), "web-tls", metav1.GetOptions{})
		return err
	})
	o, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, o.Status.Conditions)
}
