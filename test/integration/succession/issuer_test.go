package succession

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// requests are the CertificateRequests that the signer has made.
func requests(ctx context.Context, c client.Client) (all []*certmanager.Request, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(certmanager.APIVersion)
	list.SetKind(certmanager.Kind + "List")
	if err := c.List(ctx, list, client.InNamespace(api.DefaultNamespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		r, err := certmanager.FromObject(list.Items[i].Object)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// leftOver waits until nothing is left of requests but probes.
func leftOver(t *scene, c client.Client) {
	t.Helper()
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		all, err := requests(t.Context(), c)
		require.NoError(collect, err)
		for _, r := range all {
			assert.True(collect, r.IsProbe(), r.Name)
		}
		secrets, err := t.admin.CoreV1().Secrets(api.DefaultNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: api.LabelManagedBy + "=servingcert.pending"})
		require.NoError(collect, err)
		assert.Empty(collect, secrets.Items)
	}, waitFor, tick)
}

// A real cert-manager signs with a CA that a company has, and with another that comes in its
// place. What a SelfSigned issuer signs is no CA's.
func TestIssuerOfCertManager(test *testing.T) {
	t := fresh(test)
	manager := startCertManager(t)
	require.NoError(t, harness.ApplyOptional(t.Context(), manager.admin, "ca-issuer.yaml"))
	manager.create(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer",
		"metadata": map[string]any{"name": "self"}, "spec": map[string]any{"selfSigned": map[string]any{}},
	}})
	signer := start(t, "signer", append(fast, "--ca-issuer=ClusterIssuer/self")...)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(said(t, api.CAUnreachable), func(note string) bool {
			return strings.Contains(note, "to ClusterIssuer/self") && strings.Contains(note, "Annotation")
		})
	}, 2*waitFor, tick, "a request has no key for it; said: %q", said(t, api.CAUnreachable))

	root, next := newAuthority(t, "Company Root", pki.ECDSAP256, nil), newAuthority(t, "Company Root 2", pki.ECDSAP256, nil)
	manager.issuer(t, "company", pki.EncodeCertificates(root.cert), pkcs8(t, root.key))
	signer.restart(t, append(fast, "--ca-issuer=ClusterIssuer/company")...)
	start(t, "trust")
	makeShop(t, "shop", 3, nil)
	tr := startTraffic(t, "shop", 3, time.Now, takingUp...)
	state := stored(t)
	require.Len(t, state.Generations, 1)
	assert.Equal(t, ca.OriginRemote, state.Generations[0].Origin)
	for i := range 3 {
		chain := served(t, "shop", i)
		require.Len(t, chain, 1, "the root is not served")
		verifies(t, chain, root.cert)
	}
	leftOver(t, manager.admin)

	replace := func(by *authority) {
		secret, err := t.admin.CoreV1().Secrets(certManagerNamespace).Get(t.Context(), "company", metav1.GetOptions{})
		require.NoError(t, err)
		secret.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(by.cert), corev1.TLSPrivateKeyKey: pkcs8(t, by.key)}
		_, err = t.admin.CoreV1().Secrets(certManagerNamespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	replace(next)
	newService(t, "after")
	notReady(t, "after", "CAChanged", `signed with CA "CN=Company Root 2`)
	require.Eventually(t, func() bool { return len(stored(t).Generations) == 2 }, 4*waitFor, tick, "it is the next CA, as another probe shows")
	signedBy(t, "2")
	signedWith(t, issued(t, "after"), next.cert)
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && tr.issuers()[0] == "Company Root 2" }, waitFor, tick)
	tr.requireNoFailure(t)
	leftOver(t, manager.admin)

	// Its key is stolen. A person replaces it and distrusts it before any certificate shows the new CA.
	last := newAuthority(t, "Company Root 3", pki.ECDSAP256, nil)
	replace(last)
	var cm *corev1.ConfigMap
	for i := 0; i < 5 && (cm == nil || cm.Data[api.CAGeneration] != "3"); i++ { // refused until cert-manager's informer has the Secret
		reason := fmt.Sprint("stolen ", i)
		patchStatus(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRotate: reason, api.AnnotationRotateMode: string(api.RotateDistrust)}}})
		cm = eventually(t, "the request is answered", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CARotation] == "distrust-now:"+reason })
	}
	assert.Equal(t, "3", cm.Data[api.CAGeneration], cm.Data[api.CARotationOutcome])
	assert.Equal(t, string(pki.EncodeCertificates(last.cert)), cm.Data[api.BundleKey])
}

// ownIssuer is an issuer of a group of its own, which answers as a test says for each Service.
type ownIssuer struct {
	client client.Client
	ca     *authority

	mu sync.Mutex
	by map[string]func(r *certmanager.Request) // by Service; one that returns without a status is late
}

// startOwnIssuer answers requests until the test ends.
func startOwnIssuer(t *scene, c client.Client, ca *authority) *ownIssuer {
	i := &ownIssuer{client: c, ca: ca, by: map[string]func(*certmanager.Request){}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			all, _ := requests(ctx, c) // the kind may be a moment old
			for _, r := range all {
				if len(r.Status.Conditions) == 0 {
					i.answer(ctx, t, r)
				}
			}
			time.Sleep(tick)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return i
}

// answers says how the issuer answers for a Service of the shop; nil: as it should.
func (i *ownIssuer) answers(service string, how func(*certmanager.Request)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.by[service] = how
}

func serviceOf(r *certmanager.Request) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Annotations[certmanager.AnnotationFor], "shop/"), "-tls")
}

func (i *ownIssuer) answer(ctx context.Context, t *scene, r *certmanager.Request) {
	i.mu.Lock()
	how := i.by[serviceOf(r)]
	i.mu.Unlock()
	if how == nil {
		how = i.signs(t, func(*x509.Certificate) {})
	}
	if how(r); len(r.Status.Conditions) == 0 {
		return
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if !assert.NoError(t, err) {
		return
	}
	err = i.client.Status().Update(ctx, &unstructured.Unstructured{Object: object})
	if !apierrors.IsConflict(err) { // another of this name meanwhile: it is answered at the next look
		assert.NoError(t, client.IgnoreNotFound(err))
	}
}

func conditionOf(r *certmanager.Request, kind, status, reason, message string) {
	r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	})
}

// signs is an answer with a certificate that is as asked for but for the change.
func (i *ownIssuer) signs(t *scene, change func(*x509.Certificate)) func(*certmanager.Request) {
	return func(r *certmanager.Request) {
		block, _ := pem.Decode(r.Spec.Request)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		require.NoError(t, err)
		now := time.Now()
		template := &x509.Certificate{
			DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, NotBefore: now, NotAfter: now.Add(r.Spec.Duration.Duration),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, PublicKey: csr.PublicKey,
		}
		change(template)
		template.SerialNumber, err = pki.NewSerial()
		require.NoError(t, err)
		der, err := x509.CreateCertificate(rand.Reader, template, i.ca.cert, template.PublicKey, i.ca.key)
		require.NoError(t, err)
		r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		r.Status.CA = pki.EncodeCertificates(i.ca.cert)
		conditionOf(r, "Approved", "True", "policy", "approved")
		conditionOf(r, "Ready", "True", "Issued", "signed")
	}
}

// requestsFor are the requests for the Secret of a Service.
func (i *ownIssuer) requestsFor(t *scene, service string) []*certmanager.Request {
	all, err := requests(t.Context(), i.client)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(r *certmanager.Request) bool { return serviceOf(r) != service })
}

// An issuer that is late, refuses, or signs something else than it was asked for: a reason on
// the Service for each, and nobody else waits.
func TestIssuerThatDoesNotDoAsAsked(test *testing.T) {
	t := fresh(test)
	signer := start(t, "signer", append(fast, "--ca-issuer=Own/company.example.com")...)
	start(t, "trust")
	requireSaid(t, api.CAUnreachable) // there is no cert-manager
	admin := installCertManager(t)
	require.NoError(t, harness.ApplyOptional(t.Context(), admin, "ca-issuer.yaml"))
	company := newAuthority(t, "Company Root", pki.ECDSAP256, nil)
	own := startOwnIssuer(t, admin, company)
	signer.restart(t, append(fast, "--ca-issuer=Own/company.example.com")...) // within a minute it would be asked anyway
	makeShop(t, "shop", 1, nil)
	verifies(t, served(t, "shop", 0), company.cert)

	late := func(r *certmanager.Request) {}
	own.answers("late", late)
	own.answers("waits", func(r *certmanager.Request) {
		conditionOf(r, "Approved", "True", "policy", "approved")
		conditionOf(r, "Ready", "False", "Pending", "the vault is sealed")
	})
	cases := map[string]struct {
		how          func(*certmanager.Request)
		reason, says string
	}{
		"denied": {func(r *certmanager.Request) { conditionOf(r, "Denied", "True", "policy", "no names of shops") }, "CARefused", "was denied by an approval policy: no names of shops"},
		"broken": {func(r *certmanager.Request) { conditionOf(r, "Ready", "True", "Issued", "") }, "CAAnswerInvalid", "is not a certificate"},
		"names":  {own.signs(t, func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "example.com") }), "SigningRefused", "its names are"},
	}
	for name, c := range cases {
		own.answers(name, c.how)
		newService(t, name)
	}
	newService(t, "late")
	newService(t, "waits")
	newService(t, "prompt")
	verifies(t, leafOf(t, issued(t, "prompt")), company.cert)
	for name, c := range cases {
		notReady(t, name, c.reason, c.says)
	}
	notReady(t, "late", "SigningPending", "is not approved yet")
	notReady(t, "waits", "SigningPending", "waits: the vault is sealed")

	asked := own.requestsFor(t, "late")
	require.Len(t, asked, 1)
	signer.restart(t, append(fast, "--ca-issuer=Own/company.example.com")...)
	newService(t, "meanwhile")
	issued(t, "meanwhile")
	for name := range cases {
		require.Len(t, own.requestsFor(t, name), 1, "%s is not asked for again at once", name)
	}
	again := own.requestsFor(t, "late")
	require.Len(t, again, 1)
	assert.Equal(t, asked[0].UID, again[0].UID, "what was asked for is not asked for twice")
	own.answers("late", nil)
	certs := leafOf(t, issued(t, "late"))
	verifies(t, certs, company.cert)
	block, _ := pem.Decode(asked[0].Spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, csr.PublicKey, certs[0].PublicKey, "the key of before the restart")

	// Somebody who has mended the issuer deletes the answer, and it is asked again.
	for name := range cases {
		own.answers(name, nil)
		for _, r := range own.requestsFor(t, name) {
			object := &unstructured.Unstructured{}
			object.SetAPIVersion(certmanager.APIVersion)
			object.SetKind(certmanager.Kind)
			object.SetNamespace(r.Namespace)
			object.SetName(r.Name)
			require.NoError(t, admin.Delete(t.Context(), object))
		}
	}
	for name := range cases {
		verifies(t, leafOf(t, issued(t, name)), company.cert)
	}

	// cert-manager is uninstalled: what exists stays as it is.
	before := written(t)
	delete(before, "Service waits") // it has nothing, and says so at the next look
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("certificaterequests.cert-manager.io")
	require.NoError(t, admin.Delete(t.Context(), crd))
	newService(t, "gone")
	notReady(t, "gone", "CAUnreachable", "does not serve CertificateRequest of cert-manager.io/v1: is cert-manager installed?")
	now := written(t)
	for name, version := range before {
		assert.Equal(t, version, now[name], name)
	}
	assertNoKeys(t, signer.Log.String())
}

func leafOf(t *scene, secret *corev1.Secret) []*x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return certs
}
