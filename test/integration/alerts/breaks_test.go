//go:build alerts

package alerts

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
	"github.com/servingcert/servingcert/test/signertest"
)

// setUp breaks what the rotator looks at for half a minute before it says so.
func setUp(t *testing.T) {
	t.Helper()
	early := place{t, t, "early"} // its pod is older than its label
	harness.NewNamespace(t, admin, early.name, false)
	early.service()
	early.runs(early.bare())
	early.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: early.name}}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelInject, api.InjectEnabled))

	mute := newPlace(t, t, "mute")
	mute.runs(mute.bare())
	for _, name := range []string{"rolls", "waits", "paused"} { // --max-restarts=1: one of the first two gets the place
		p := newPlace(t, t, name)
		p.serves(p.deployment())
		if name == "paused" {
			p.patch(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"}}, `{"spec":{"paused":true}}`)
		}
		p.renew()
	}
}

func object(kind, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"broken": kind}}
}

func breaksOfTheWebhook() []broken {
	programs := &corev1.ConfigMap{ObjectMeta: object("programs", api.DefaultNamespace, api.ProgramsName), Data: map[string]string{"programs.yaml": "nonsense"}}
	return []broken{
		{
			alert: "ServingcertProgramsInvalid", how: "ConfigMap servingcert-programs is written with nonsense",
			breaks: func(t *testing.T, _ *world) { require.NoError(t, admin.Create(t.Context(), programs)) },
			mend:   func(t *testing.T, _ *world) { require.NoError(t, admin.Delete(t.Context(), programs)) },
		},
		{
			alert: "ServingcertReviewsSlow", how: "a review is sent that takes three seconds to arrive",
			breaks: func(t *testing.T, w *world) { require.NoError(t, w.postsSlowly(t.Context())) },
		},
		withoutRights("ServingcertReviewsFail", nil),
		withoutRights("ServingcertReadsRefused", map[string]string{"process": "webhook"}),
	}
}

// withoutRights takes the webhook's rights, which it needs to read the Services of a review.
func withoutRights(alert string, labels map[string]string) broken {
	var binding rbacv1.ClusterRoleBinding
	return broken{
		alert: alert, labels: labels, how: "the webhook's ClusterRoleBinding is deleted, and pods are created",
		breaks: func(t *testing.T, _ *world) {
			require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "servingcert-webhook"}, &binding))
			require.NoError(t, admin.Delete(t.Context(), binding.DeepCopy()))
		},
		again: func(ctx context.Context, _ *world) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "paused", Name: "unselected"}, Spec: template().Spec}
			_ = admin.Create(ctx, pod, client.DryRunAll) // that it is refused is what is waited for
		},
		mend: func(t *testing.T, _ *world) {
			binding.ResourceVersion, binding.UID, binding.ManagedFields = "", "", nil
			require.NoError(t, admin.Create(t.Context(), &binding))
		},
	}
}

// postsSlowly posts a review as the API server does, in two parts.
func (w *world) postsSlowly(ctx context.Context) error {
	var svc corev1.Service
	if err := admin.Get(ctx, inSystem("servingcert-webhook"), &svc); err != nil {
		return err
	}
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+svc.Spec.ClusterIP+":9443"+admission.Path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	go func() {
		_, _ = io.WriteString(writer, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",`)
		time.Sleep(3 * time.Second) // what is tested, not a wait for something
		_, err := io.WriteString(writer, `"operation":"CREATE","namespace":"paused","resource":{"group":"","version":"v1","resource":"pods"},`+
			`"object":{"metadata":{"name":"web"},"spec":{"containers":[]}}}}`)
		_ = writer.CloseWithError(err)
	}()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is secret
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"allowed":true`)) {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

func breaksOfTrust() []broken {
	imported := &corev1.Secret{ObjectMeta: object("import", api.DefaultNamespace, api.CAImportName), Data: map[string][]byte{"tls.crt": []byte("nonsense")}}
	immutable := true
	frozen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "paused", Name: "frozen", Annotations: map[string]string{api.AnnotationInjectCABundle: "true"}}, Immutable: &immutable}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName}}
	return []broken{
		{
			alert: "ServingcertCAWarns", labels: map[string]string{"reason": api.CAImportInvalid}, how: "a CA is imported that is none",
			breaks: func(t *testing.T, _ *world) { require.NoError(t, admin.Create(t.Context(), imported)) },
			mend:   func(t *testing.T, _ *world) { require.NoError(t, admin.Delete(t.Context(), imported)) },
		},
		{
			alert: "ServingcertTrustRefused", labels: map[string]string{"kind": "ConfigMap", "reason": "Immutable"}, how: "an immutable ConfigMap asks for the bundle",
			breaks: func(t *testing.T, _ *world) { require.NoError(t, admin.Create(t.Context(), frozen)) },
		},
		{
			alert: "ServingcertSuccessionStuck", how: "another CA is asked for while that ConfigMap refuses its root",
			breaks: func(t *testing.T, _ *world) {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"drill"}}}`, api.AnnotationRotate)
				require.NoError(t, admin.Patch(t.Context(), status, client.RawPatch(types.MergePatchType, patch)))
			},
		},
	}
}

// guarded makes a Service that lists its clients, and a pod whose proxy has the flags and asks no client for a certificate.
func guarded(name string, flags ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		p := newPlace(t, w.t, name)
		pod := p.proxied(flags...)
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"shop/cart"}},"spec":{"ports":[{"name":"https","port":443,"targetPort":%q}]}}`, api.AnnotationClients, proxyPort)
		p.patch(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "web"}}, patch)
		p.serves(pod)
	}
}

func breaksOfPods() []broken {
	return []broken{
		{
			alert: "ServingcertStale", labels: map[string]string{"namespace": "stale"}, how: "a pod serves what it read before the renewal",
			breaks: func(t *testing.T, w *world) {
				p := newPlace(t, w.t, "stale")
				p.serves(p.bare())
				p.renew()
			},
		},
		{alert: "ServingcertStaleEnding", labels: map[string]string{"namespace": "stale"}, how: "its certificate lives for 12 hours"},
		{
			alert: "ServingcertNotServed", labels: map[string]string{"namespace": "mute", "state": "unreachable"}, how: "a pod that is ready does not listen",
		},
		{
			alert: "ServingcertStrangersAdmitted", labels: map[string]string{"namespace": "open"}, how: "a proxy asks no client for a certificate",
			breaks: guarded("open", "--clients=/etc/servingcert-clients/clients"),
		},
		{
			alert: "ServingcertNotGuarded", labels: map[string]string{"namespace": "older", "state": "no_list"}, how: "a proxy reads no list",
			breaks: guarded("older"),
		},
		{
			alert: "ServingcertPodsFailing", labels: map[string]string{"namespace": "crashes"}, how: "a program exits again and again after it was given something",
			breaks: func(t *testing.T, w *world) {
				p := newPlace(t, w.t, "crashes")
				p.crashes(p.deployment(), "unknown flag: --tls-cert-file\n")
			},
		},
		{alert: "ServingcertRestartHeld", labels: map[string]string{"namespace": "paused", "reason": "Paused"}, how: "a stale Deployment is paused"},
		{alert: "ServingcertPodsMissed", labels: map[string]string{"namespace": "early"}, how: "a pod is older than its namespace's label"},
		{alert: "ServingcertRestartStuck", how: "the new pod of a Deployment that was restarted never runs"},
		{alert: "ServingcertRestartsWait", how: "another Deployment waited for its place, until it was seen to be stuck", earlier: true},
	}
}

func breaksOfTheSigner() []broken {
	return []broken{
		{
			alert: "ServingcertIssuingFails", labels: map[string]string{"namespace": "full", "reason": "WriteRefused"}, how: "a quota permits no Secrets",
			breaks: func(t *testing.T, _ *world) {
				p := place{t, t, "full"}
				harness.NewNamespace(t, admin, p.name, true)
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}}}
				p.create(quota)
				harness.Eventually(t, func() error { // admission goes by the status
					if err := admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) > 0 {
						return err
					}
					return errors.New("the quota is not in force")
				})
				p.service()
			},
		},
		{
			alert: "ServingcertExternalRenewalOverdue", labels: map[string]string{"namespace": "paused", "secret": "theirs"}, how: "the certificate of another issuer ends in two minutes",
			breaks: func(t *testing.T, _ *world) {
				written(t, "theirs", nil, 58*time.Minute)
				place{t, t, "paused"}.create(&corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "theirs", Annotations: map[string]string{api.AnnotationSecretName: "theirs", api.AnnotationIssuer: string(api.IssuerExternal)}},
					Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
				})
			},
		},
		{
			alert: "ServingcertCannotSign", labels: map[string]string{"reason": api.CALost}, how: "Secret servingcert-ca is deleted",
			breaks: func(t *testing.T, _ *world) {
				require.NoError(t, admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CASecretName}}))
			},
		},
		{
			alert: "ServingcertCertificateOverdue", labels: map[string]string{"namespace": "paused", "secret": "old"}, how: "a certificate ended two hours ago, and nobody can renew it",
			breaks: func(t *testing.T, _ *world) { managed(t, "old", 3*time.Hour) },
		},
		{
			alert: "ServingcertCertificateEnding", labels: map[string]string{"namespace": "paused", "secret": "ends"}, how: "another ends in two minutes",
			breaks: func(t *testing.T, _ *world) { managed(t, "ends", 58*time.Minute) },
		},
	}
}

// managed writes a Secret as the signer does, with a certificate of an hour that is so old.
func managed(t *testing.T, name string, age time.Duration) {
	t.Helper()
	written(t, name, map[string]string{api.LabelManagedBy: api.DefaultInstance}, age)
}

func written(t *testing.T, name string, labels map[string]string, age time.Duration) {
	t.Helper()
	pair := rotatortest.NewCA(t, 1, time.Now().Add(-24*time.Hour)).Issue(t, time.Now().Add(-age), "web.paused.svc")
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	require.NoError(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "paused", Name: name, Labels: labels},
		Type:       corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": pki.EncodeCertificates(pair.Leaf), "tls.key": key},
	}))
}

func breaksOfProcesses() []broken {
	return []broken{
		{
			alert: "ServingcertVersionsDiffer", how: "a webhook of another version runs beside",
			breaks: func(t *testing.T, w *world) {
				address, err := harness.FreeAddress()
				require.NoError(t, err)
				w.scrapes(t, start(w.t, other, "webhook", w.dirOf("webhook"), "--cert-dir="+w.dirOf("webhook"), "--bind-address=127.0.0.1", "--port="+strings.TrimPrefix(address, "127.0.0.1:")))
			},
		},
		{
			alert: "ServingcertSilent", labels: map[string]string{"process": "signer"}, how: "the signer is stopped",
			breaks: func(t *testing.T, w *world) { w.signer.stop(t) },
		},
		{
			alert: "ServingcertNoBundle", how: "ConfigMap servingcert-ca-status is deleted, and no signer writes it again",
			breaks: func(t *testing.T, _ *world) {
				require.NoError(t, admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName}}))
			},
		},
		{
			alert: "ServingcertNobodyDistributes", how: "somebody who is gone holds the Lease of the rotator of the bundle for an hour",
			breaks: func(t *testing.T, w *world) {
				w.trust.stop(t)
				holds(t, "servingcert-trust")
				w.trust = start(w.t, bin, "trust", w.dirOf("trust"))
				w.scrapes(t, w.trust)
			},
		},
		{
			alert: "ServingcertNobodyFollows", how: "the same of the rotator of the pods",
			breaks: func(t *testing.T, w *world) {
				w.rotator.stop(t)
				holds(t, "servingcert-rotator")
				w.rotator = start(w.t, bin, "rotator", w.dirOf("rotator"), rotatorFlags...)
				w.scrapes(t, w.rotator)
			},
		},
		{
			alert: "ServingcertNobodySigns", how: "the same of the signer's",
			breaks: func(t *testing.T, w *world) {
				holds(t, "servingcert-signer")
				w.signer = start(w.t, bin, "signer", w.dirOf("signer"), signerFlags...)
				w.scrapes(t, w.signer)
			},
			mend: func(t *testing.T, _ *world) {
				for _, name := range []string{"servingcert-signer", "servingcert-trust", "servingcert-rotator"} {
					lease := &coordinationv1.Lease{}
					require.NoError(t, admin.Get(t.Context(), inSystem(name), lease))
					lease.Spec = coordinationv1.LeaseSpec{}
					require.NoError(t, admin.Update(t.Context(), lease))
				}
			},
		},
	}
}

// holds lets somebody who is not there lead.
func holds(t *testing.T, name string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, admin.Get(t.Context(), inSystem(name), lease))
	nobody, hour, now := "nobody", int32(3600), metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &nobody, LeaseDurationSeconds: &hour, AcquireTime: &now, RenewTime: &now}
	require.NoError(t, admin.Update(t.Context(), lease))
}

func breaksOfTheCA() []broken {
	return []broken{
		{
			alert: "ServingcertCAEnding", how: "a CA is imported that ends in 20 days",
			breaks: func(t *testing.T, w *world) {
				startsAnew(t, w)
				require.NoError(t, admin.Create(t.Context(), endingCA(t)))
			},
		},
		{alert: "ServingcertCAExpires", how: "it signs"},
	}
}

// startsAnew takes away all that shows that there was a CA, so that the signer makes another, and all that refuses it.
func startsAnew(t *testing.T, w *world) {
	t.Helper()
	ctx := t.Context()
	w.signer.stop(t) // it would write its status again
	require.NoError(t, admin.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "paused", Name: "frozen"}}))
	var secrets corev1.SecretList
	require.NoError(t, admin.List(ctx, &secrets, client.MatchingLabels{api.LabelManagedBy: api.DefaultInstance}))
	for i := range secrets.Items {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(ctx, &secrets.Items[i])))
	}
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAStatusName}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CASecretName}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAInterimName}},
	} {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(ctx, obj)))
	}
	w.signer = start(w.t, bin, "signer", w.dirOf("signer"), signerFlags...)
	w.scrapes(t, w.signer)
	harness.Eventually(t, func() error {
		err := admin.Get(ctx, inSystem(api.CASecretName), &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("no CA was made: %w", err)
		}
		return err
	})
	for _, name := range []string{"signer", "trust", "rotator"} {
		w.project(t, name)
	}
	w.trusts(t)
}

// endingCA is a CA of somebody's that is two years old.
func endingCA(t *testing.T) *corev1.Secret {
	t.Helper()
	ca := signertest.NewCA(t, signertest.ClusterNames, time.Now().Add(-700*24*time.Hour), time.Now().Add(20*24*time.Hour))
	keyPEM, err := pki.EncodeKey(ca.Key)
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.CAImportName},
		Data:       map[string][]byte{"tls.crt": pki.EncodeCertificates(ca.Certificate), "tls.key": keyPEM, "ca.crt": pki.EncodeCertificates(ca.Certificate)},
	}
}
