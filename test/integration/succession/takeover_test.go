package succession

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// docs/openshift.md: service-ca's CA is imported before the flag is set. Its Secrets are
// taken over, for clients that hold service-ca's root alone too, and what it has issued
// verifies by the bundle that the ConfigMaps get.
func TestTakingOverFromServiceCA(test *testing.T) {
	t := fresh(test)
	serviceCA := newAuthority(t, "openshift-service-serving-signer@1763800000", pki.RSA2048, nil, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: c.Subject.CommonName}
		c.KeyUsage |= x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature
	})
	_, err := t.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	serviceCAsConfigMap(t, serviceCA)
	issuedBefore := serviceCAsSecret(t, "metrics", serviceCA)
	older := serviceCAsSecret(t, "older", newAuthority(t, "openshift-service-serving-signer@1700000000", pki.RSA2048, nil))
	bring(t, serviceCA.forImport(t, traditional))

	signing := start(t, "signer", fast...)
	rotating := start(t, "trust")
	require.Eventually(t, func() bool {
		cm, err := t.admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
		return err == nil && cm.Data[api.CAGeneration] == "1"
	}, waitFor, tick, "the CA signs")
	require.Equal(t, ca.OriginImport, stored(t).Generations[0].Origin)
	signing.stop(t)
	rotating.stop(t)
	start(t, "signer", append(fast, "--openshift-compat")...)
	start(t, "trust", "--openshift-compat")

	// The Secret is owned by its Service and signed by the CA: it is taken over, with a new key.
	waitReadyReason(t, "metrics", "Issued")
	now, err := t.admin.CoreV1().Secrets("monitoring").Get(t.Context(), "metrics-tls", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, issuedBefore.UID, now.UID)
	assert.NotEqual(t, issuedBefore.Data[corev1.TLSPrivateKeyKey], now.Data[corev1.TLSPrivateKeyKey])
	assert.Equal(t, "service-ca", now.Annotations["openshift.io/owning-component"], "left as it is")
	chain, err := pki.ParseCertificates(now.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	verifies(t, chain, serviceCA.cert)
	assert.Contains(t, serviceCABundle(t), string(pki.EncodeCertificates(serviceCA.cert)), "what pods serve until they reload verifies")

	// One of a CA that was not imported is left as it is.
	waitReadyReason(t, "older", "SecretConflict")
	still, err := t.admin.CoreV1().Secrets("monitoring").Get(t.Context(), "older-tls", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, older.ResourceVersion, still.ResourceVersion)

	// What follows is made here, and clients that hold service-ca's root alone verify it.
	ask(t, "service-ca's key goes")
	signedBy(t, "2")
	now, err = t.admin.CoreV1().Secrets("monitoring").Get(t.Context(), "metrics-tls", metav1.GetOptions{})
	require.NoError(t, err)
	chain, err = pki.ParseCertificates(now.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	verifies(t, chain, serviceCA.cert)
	verifies(t, chain, stored(t).Generations[1].Root)
}

// serviceCAsSecret makes a Service that asks service-ca, and what that answers: Secret
// NAME-tls with a certificate of its CA and the root behind it, an RSA key in PKCS #1, and
// no label of ours.
func serviceCAsSecret(t *scene, name string, serviceCA *authority) *corev1.Secret {
	t.Helper()
	service, err := t.admin.CoreV1().Services("monitoring").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			api.OpenShiftSecretName: name + "-tls", api.OpenShiftSignedBy: serviceCA.cert.Subject.CommonName,
		}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	leaf := newAuthority(t, name+".monitoring.svc", pki.RSA2048, serviceCA, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: name + ".monitoring.svc"}
		c.DNSNames = []string{name + ".monitoring.svc", name + ".monitoring.svc.cluster.local"}
		c.IsCA, c.KeyUsage = false, x509.KeyUsageKeyEncipherment|x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	expiry := leaf.cert.NotAfter.Format(time.RFC3339)
	secret, err := t.admin.CoreV1().Secrets("monitoring").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-tls",
			Annotations: map[string]string{
				api.OpenShiftServiceName: name, api.OpenShiftServiceUID: string(service.UID), api.OpenShiftExpiry: expiry, api.OpenShiftExpiryAlpha: expiry,
				"openshift.io/owning-component": "service-ca", "openshift.io/description": "Secret contains a pair signed by the service CA",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: service.UID}},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey: pki.EncodeCertificates(leaf.cert, serviceCA.cert), corev1.TLSPrivateKeyKey: traditional(t, leaf.key),
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return secret
}

// serviceCAsConfigMap makes one that asks service-ca for its bundle, and has it.
func serviceCAsConfigMap(t *scene, serviceCA *authority) {
	t.Helper()
	_, err := t.admin.CoreV1().ConfigMaps("monitoring").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-ca", Annotations: map[string]string{api.OpenShiftInjectCABundle: "true"}},
		Data:       map[string]string{"service-ca.crt": string(pki.EncodeCertificates(serviceCA.cert))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// serviceCABundle waits until the rotator reports the ConfigMap as held, and returns its bundle.
func serviceCABundle(t *scene) (bundle string) {
	t.Helper()
	want := status(t).Data[api.BundleKey]
	require.Eventually(t, func() bool {
		cm, err := t.admin.CoreV1().ConfigMaps("monitoring").Get(t.Context(), "metrics-ca", metav1.GetOptions{})
		bundle = cm.Data["service-ca.crt"]
		return err == nil && bundle == want
	}, waitFor, tick, "the ConfigMap does not hold the bundle")
	return bundle
}

func waitReadyReason(t *scene, service, reason string) {
	t.Helper()
	var conditions []metav1.Condition
	if !assert.Eventually(t, func() bool {
		svc, err := t.admin.CoreV1().Services("monitoring").Get(t.Context(), service, metav1.GetOptions{})
		if err != nil {
			return false
		}
		conditions = svc.Status.Conditions
		ready := meta.FindStatusCondition(conditions, api.ConditionReady)
		return ready != nil && ready.Reason == reason
	}, waitFor, tick) {
		require.Fail(t, "Service "+service+" never has reason "+reason, "%+v", conditions)
	}
}
