package succession

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

// The objects of service-ca in these tests are made as its controllers make them. Taking over
// was also tried with those controllers themselves (commit 6391e070 of June 2026), to
// servingcert and back: of 9909 handshakes none failed. They are no part of the tests, because the
// public proxy for modules does not serve their module.

// docs/openshift.md, from a service-ca that has rotated its CA: each step of the road, and at
// no moment a client that cannot verify a server, whether it holds the root of before the
// rotation alone, the root of now alone, or what the ConfigMap holds.
func TestTakingOverFromServiceCA(test *testing.T) {
	t := fresh(test)
	s := newServiceCA(t, true)
	s.runs(t, 1)
	s.configMap(t)
	issued := s.secret(t, "metrics", s.now)
	s.secret(t, "left", s.before)
	byHand := s.secret(t, "byhand", newAuthority(t, "Somebody's CA", pki.RSA2048, nil))
	watch := s.watch(t, "metrics-tls")

	out, err := cli(t, "migrate", "service-ca", "--check")
	require.Error(t, err, "something is in the way")
	assert.Contains(t, out, "service-ca is running: Deployment openshift-service-ca/service-ca")
	assert.Contains(t, out, "it was rotated")
	assert.Contains(t, out, "3 Secrets requested with OpenShift's annotations; 1 signed by service-ca's CA; 1 signed by its previous CA; 1 changed by another client")
	assert.Contains(t, out, `blocked by: Secret monitoring/byhand-tls of Service byhand: its certificate was issued by "CN=Somebody's CA`)
	assert.Contains(t, out, "would do: import the CA")
	_, err = t.admin.CoreV1().Secrets(api.DefaultNamespace).Get(t.Context(), api.CAImportName, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "it changes nothing: %v", err)

	migrate := func(says ...string) {
		t.Helper()
		out, _ := cli(t, "migrate", "service-ca", "--timeout=1m") // one Secret stays in the way
		for _, text := range says {
			require.Contains(t, out, text)
		}
	}
	migrate("next: Install servingcert in namespace servingcert-system, without --openshift-compat")
	signing, rotating := start(t, "signer", fast...), start(t, "trust")
	require.Eventually(t, func() bool {
		_, err := t.admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
		return err == nil
	}, waitFor, tick)
	migrate("rotate the CA", "next: Stop service-ca: kubectl -n openshift-service-ca scale deployment service-ca --replicas=0")
	generations := stored(t).Generations
	require.Len(t, generations, 2)
	assert.Equal(t, ca.OriginImport, generations[0].Origin)
	assert.True(t, generations[0].Root.Equal(s.now.cert), "it is the generation before ours")

	s.runs(t, 0)
	migrate("next: Set --openshift-compat", "Deployment servingcert-signer")
	signing.stop(t)
	rotating.stop(t)
	compat(t)
	start(t, "signer", append(fast, "--openshift-compat")...)
	start(t, "trust", "--openshift-compat")
	waitReadyReason(t, "metrics", "Issued")
	migrate("put label servingcert.dev/managed-by on 1 Secret")
	waitReadyReason(t, "left", "Issued")
	migrate("next: Done: servingcert manages 2 of 3 Secrets")

	now := s.holds(t, "metrics-tls")
	assert.Equal(t, issued.UID, now.UID)
	assert.Equal(t, "service-ca", now.Annotations["openshift.io/owning-component"], "left as it is")
	chain, err := pki.ParseCertificates(now.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	for _, root := range []*x509.Certificate{s.before.cert, s.now.cert, generations[1].Root} {
		verifies(t, chain, root)
	}
	bundle := serviceCABundle(t)
	for _, root := range []*x509.Certificate{s.now.cert, s.former, generations[1].Root} {
		assert.Contains(t, bundle, string(pki.EncodeCertificates(root)))
	}
	watch.requireNoFailure(t)

	// What somebody else put there is left as it is.
	waitReadyReason(t, "byhand", "SecretConflict")
	assert.Equal(t, byHand.ResourceVersion, s.holds(t, "byhand-tls").ResourceVersion)
}

// A CA that has ended can neither be imported nor certify another. Its Secrets, which no
// client verifies, are taken over; nothing happens before a person has stopped service-ca.
func TestTakingOverFromAServiceCAThatHasExpired(test *testing.T) {
	t := fresh(test)
	s := newServiceCA(t, false, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	s.runs(t, 0)
	s.secret(t, "metrics", s.now)
	compat(t)
	signing := start(t, "signer", append(fast, "--openshift-compat")...)
	start(t, "trust", "--openshift-compat")
	waitReadyReason(t, "metrics", "SecretConflict")
	out, err := cli(t, "migrate", "service-ca", "--timeout=3m")
	require.NoError(t, err)
	assert.Contains(t, out, "it has expired, or expires within 2h0m0s. It cannot be imported")
	assert.Contains(t, out, "put label servingcert.dev/managed-by on 1 Secret")
	waitReadyReason(t, "metrics", "Issued")
	out, err = cli(t, "migrate", "service-ca", "--check")
	require.NoError(t, err)
	assert.Contains(t, out, "next: Done: servingcert manages 1 of 1 Secret")
	assert.Len(t, stored(t).Generations, 1)

	// It comes back, has made another CA and issued with that: the road once more, from where
	// servingcert has a CA.
	signing.stop(t)
	s.now = newSigner(t, 3)
	signingKey(t, map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(s.now.cert), corev1.TLSPrivateKeyKey: traditional(t, s.now.key)})
	s.secret(t, "later", s.now)
	signing.Start(t)
	waitReadyReason(t, "later", "SecretConflict")
	out, err = cli(t, "migrate", "service-ca", "--timeout=3m")
	require.NoError(t, err)
	assert.Contains(t, out, "wait until the signer has imported the CA from Secret servingcert-ca-import")
	assert.Contains(t, out, "rotate the CA: a new CA replaces service-ca's, generation 2, which cross-signs it")
	waitReadyReason(t, "later", "Issued")
	chain, err := pki.ParseCertificates(s.holds(t, "later-tls").Data[corev1.TLSCertKey])
	require.NoError(t, err)
	require.Len(t, stored(t).Generations, 3)
	for _, g := range stored(t).Generations {
		verifies(t, chain, g.Root)
	}
}

// serviceCA is OpenShift's service-ca, as it shows in a cluster.
type serviceCA struct {
	before, now *authority // before: nil if it has never rotated
	// cross is the key of now certified by the CA before, and former the other way round.
	cross, former *x509.Certificate
}

// newServiceCA writes Secret signing-key: one CA or, after a rotation, another of the same
// name and both ways between them.
func newServiceCA(t *scene, rotated bool, change ...func(*x509.Certificate)) *serviceCA {
	t.Helper()
	s := &serviceCA{now: newSigner(t, 1, change...)}
	data := map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(s.now.cert), corev1.TLSPrivateKeyKey: traditional(t, s.now.key)}
	if rotated {
		s.before = newSigner(t, 2, change...)
		s.cross, s.former = certifiedBy(t, s.now, s.before), certifiedBy(t, s.before, s.now)
		data["ca-bundle.crt"] = pki.EncodeCertificates(s.now.cert, s.former)
		data["intermediate-ca.crt"] = pki.EncodeCertificates(s.cross)
	}
	for _, name := range []string{"monitoring", api.OpenShiftNamespace} {
		_, err := t.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	signingKey(t, data)
	return s
}

// newSigner makes a CA as service-ca does.
func newSigner(t *scene, id byte, change ...func(*x509.Certificate)) *authority {
	t.Helper()
	return newAuthority(t, "openshift-service-serving-signer@1763800000", pki.RSA2048, nil, append(change, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: c.Subject.CommonName}
		c.SubjectKeyId = []byte{id}
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature
	})...)
}

// signingKey writes Secret signing-key.
func signingKey(t *scene, data map[string][]byte) {
	t.Helper()
	secrets := t.admin.CoreV1().Secrets(api.OpenShiftNamespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.OpenShiftSigningKey}, Type: corev1.SecretTypeTLS, Data: data}
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

// certifiedBy is the CA's certificate with another signature, by the key of another.
func certifiedBy(t *scene, of, by *authority) *x509.Certificate {
	t.Helper()
	template := *of.cert
	template.AuthorityKeyId = by.cert.SubjectKeyId
	return signertest.Certify(t, &template, by.cert, of.cert.PublicKey, by.key)
}

// runs makes or scales the Deployment of service-ca.
func (s *serviceCA) runs(t *scene, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": "service-ca"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: api.OpenShiftDeployment},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
		}},
	}
	deployments := t.admin.AppsV1().Deployments(api.OpenShiftNamespace)
	_, err := deployments.Create(t.Context(), d, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

// compat sets the flag on the Deployments, as a person does; the processes of a test have none.
func compat(t *scene) {
	t.Helper()
	for _, name := range []string{"signer", "trust", "rotator", "webhook"} {
		d, err := t.admin.AppsV1().Deployments(api.DefaultNamespace).Get(t.Context(), "servingcert-"+name, metav1.GetOptions{})
		require.NoError(t, err)
		c := &d.Spec.Template.Spec.Containers[0]
		c.Args = append(c.Args, "--openshift-compat")
		_, err = t.admin.AppsV1().Deployments(api.DefaultNamespace).Update(t.Context(), d, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
}

// secret makes a Service that asks service-ca, and what that answers: Secret NAME-tls with a
// certificate of the CA and the root behind it, after a rotation what the CA before signed
// behind that, an RSA key in PKCS #1, and no label of ours.
func (s *serviceCA) secret(t *scene, name string, by *authority) *corev1.Secret {
	t.Helper()
	service, err := t.admin.CoreV1().Services("monitoring").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			api.OpenShiftSecretName: name + "-tls", api.OpenShiftSignedBy: by.cert.Subject.CommonName,
		}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	leaf := newAuthority(t, name+".monitoring.svc", pki.RSA2048, by, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: name + ".monitoring.svc"}
		c.DNSNames = []string{name + ".monitoring.svc", name + ".monitoring.svc.cluster.local"}
		c.IsCA, c.KeyUsage = false, x509.KeyUsageKeyEncipherment|x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.NotAfter = time.Now().AddDate(2, 0, 0)
	})
	chain := []*x509.Certificate{leaf.cert, by.cert}
	if by == s.now && s.cross != nil {
		chain = append(chain, s.cross)
	}
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
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(chain...), corev1.TLSPrivateKeyKey: traditional(t, leaf.key)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return secret
}

func (s *serviceCA) holds(t *scene, name string) *corev1.Secret {
	t.Helper()
	secret, err := t.admin.CoreV1().Secrets("monitoring").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}

// configMap makes one that asks service-ca for its bundle, and has it.
func (s *serviceCA) configMap(t *scene) {
	t.Helper()
	roots := []*x509.Certificate{s.now.cert}
	if s.former != nil {
		roots = append(roots, s.former)
	}
	_, err := t.admin.CoreV1().ConfigMaps("monitoring").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-ca", Annotations: map[string]string{api.OpenShiftInjectCABundle: "true"}},
		Data:       map[string]string{"service-ca.crt": string(pki.EncodeCertificates(roots...))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// encounters are handshakes of servers that hold any version of a Secret so far with clients
// that hold one root alone or any version of the ConfigMap so far.
type encounters struct {
	mu       sync.Mutex
	meetings int
	failed   []string
}

// watch has servers and clients meet until the test ends.
func (s *serviceCA) watch(t *scene, secret string) *encounters {
	t.Helper()
	e := &encounters{}
	clients := map[string]*x509.CertPool{}
	for name, a := range map[string]*authority{"the root before": s.before, "the root now": s.now} {
		clients[name] = x509.NewCertPool()
		clients[name].AddCert(a.cert)
	}
	servers := map[string]tls.Certificate{}
	step := func() {
		held, err := t.admin.CoreV1().Secrets("monitoring").Get(t.Context(), secret, metav1.GetOptions{})
		cm, cmErr := t.admin.CoreV1().ConfigMaps("monitoring").Get(t.Context(), "metrics-ca", metav1.GetOptions{})
		if err != nil || cmErr != nil {
			return // the test ends
		}
		pair, err := tls.X509KeyPair(held.Data[corev1.TLSCertKey], held.Data[corev1.TLSPrivateKeyKey])
		e.saw(err)
		servers[string(held.Data[corev1.TLSCertKey])] = pair
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(cm.Data["service-ca.crt"]))
		clients["the bundle of version "+cm.ResourceVersion] = roots
		for _, server := range servers {
			for name, roots := range clients {
				if err := meet(server, roots, "metrics.monitoring.svc"); err != nil {
					err = fmt.Errorf("%s, and a certificate of %s: %w", name, server.Leaf.Issuer, err)
					e.saw(err)
				} else {
					e.saw(nil)
				}
			}
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			step()
			select {
			case <-done:
				return
			case <-time.After(tick):
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
	return e
}

func (e *encounters) saw(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meetings++
	if err != nil && !slices.Contains(e.failed, err.Error()) {
		e.failed = append(e.failed, err.Error())
	}
}

func (e *encounters) requireNoFailure(t *scene) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(t, e.failed)
	require.Greater(t, e.meetings, 20)
	t.Logf("%d handshakes", e.meetings)
}

// meet is one handshake.
func meet(server tls.Certificate, roots *x509.CertPool, host string) error {
	a, b := net.Pipe()
	defer func() { _ = a.Close() }()
	go func() {
		_ = tls.Server(b, &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}).Handshake()
		_ = b.Close()
	}()
	return tls.Client(a, &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}).Handshake()
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
