package deploy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The words of the policies' refusals.
const (
	onlyTLS      = "of type kubernetes.io/tls only"
	onlyLabelled = "with label servingcert.dev/managed-by only"
	onlyOurs     = "that had label servingcert.dev/managed-by or a Service as their owner"
	onlyOpaque   = "its CA as a Secret of type Opaque only"
	notAToken    = "may not write annotations of service account tokens"
	notTheCA     = "may not delete its CA"
	notItsOwners = "may not change its CA's owners"
	noFinalizers = "may not change finalizers"
)

// secret is a Secret of the given namespace as a write would leave it.
func secret(namespace, name string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func labelled(s *corev1.Secret)   { s.Labels = map[string]string{api.LabelManagedBy: "any-instance"} }
func unlabelled(s *corev1.Secret) { s.Labels = nil }
func disowned(s *corev1.Secret)   { s.OwnerReferences = nil }
func annotated(s *corev1.Secret) {
	s.Annotations = map[string]string{api.AnnotationIssuedLeaf: "aa"}
}
func unannotated(s *corev1.Secret) { s.Annotations = nil }
func opaque(s *corev1.Secret)      { s.Type = corev1.SecretTypeOpaque }
func filled(s *corev1.Secret)      { s.Data[corev1.TLSCertKey] = []byte("something else") }
func annotatedAsToken(s *corev1.Secret) {
	s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "servingcert-rotator"}
}
func owned(s *corev1.Secret) {
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web"}}
}

// ownedBy completes what owned began: the garbage collector is at work here, and
// deletes a Secret whose owner does not exist.
func ownedBy(s *corev1.Secret, svc *corev1.Service) *corev1.Secret {
	for i := range s.OwnerReferences {
		s.OwnerReferences[i].UID = svc.UID
	}
	return s
}

const loadBalancer = `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`

func TestWhichSecretsTheSignerMayWrite(t *testing.T) {
	signer, admin := as(t, "servingcert-signer"), adminClient(t)
	create := func(s *corev1.Secret) error { return signer.Create(t.Context(), s) }
	update := func(s *corev1.Secret) error { return signer.Update(t.Context(), s) }
	remove := func(s *corev1.Secret) error { return signer.Delete(t.Context(), s) }
	type changes []func(*corev1.Secret)
	for _, test := range []struct {
		name    string
		there   *corev1.Secret // made by the administrator before
		write   func(*corev1.Secret) error
		changes changes
		refusal string // "" if it is allowed
	}{
		{"create a certificate", nil, create, changes{labelled, owned}, ""},
		{"create without our label", nil, create, changes{owned}, onlyLabelled},
		{"create with the annotation of a token", nil, create, changes{labelled, owned, annotatedAsToken}, notAToken},
		{"annotate as a token", secret("", "", labelled), update, changes{annotatedAsToken}, notAToken},
		{"renew what somebody annotated so", secret("", "", labelled, annotatedAsToken), update, changes{filled}, ""},
		{"create of another type", nil, create, changes{labelled, opaque}, onlyTLS},
		{"renew", secret("", "", labelled), update, changes{filled}, ""},
		{"heal a stripped label", secret("", "", owned), update, changes{labelled, filled}, ""},
		{"give it up", secret("", "", labelled, owned), update, changes{unlabelled}, onlyLabelled},
		{"release it to another issuer", secret("", "", labelled, owned), update, changes{unlabelled, disowned}, ""},
		{"release it with other data", secret("", "", labelled, owned), update, changes{unlabelled, disowned, filled}, onlyLabelled},
		{"release another's", secret("", "", annotated), update, changes{unannotated}, onlyOurs},
		{"put our label onto another's", secret("", ""), update, changes{labelled, filled}, onlyOurs},
		{"put our label and an owner onto another's", secret("", ""), update, changes{labelled, owned}, onlyOurs},
		{"change another's", secret("", ""), update, changes{filled}, onlyLabelled},
		{"change a labelled one of another type", secret("", "", labelled, opaque), update, changes{filled}, onlyTLS},
		{"create ours with a finalizer", nil, create, changes{labelled, owned, finalized}, noFinalizers},
		{"add a finalizer to ours", secret("", "", labelled, owned), update, changes{finalized}, noFinalizers},
		{"change ours with a finalizer", secret("", "", labelled, owned, finalized), update, changes{filled}, ""},
		{"delete ours", secret("", "", labelled), remove, nil, ""},
		{"delete ours with a stripped label", secret("", "", owned), remove, nil, ""},
		{"delete another's", secret("", ""), remove, nil, onlyOurs},
		{"delete one of another type", secret("", "", opaque), remove, nil, onlyTLS},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := secret(newNamespace(t, true), "web-tls")
			svc := newService(t, s.Namespace)
			if test.there != nil {
				test.there.Namespace, test.there.Name = s.Namespace, s.Name
				s = ownedBy(test.there, svc)
				require.NoError(t, admin.Create(t.Context(), s))
			}
			for _, change := range test.changes {
				change(s)
			}
			refusedWith(t, test.write(ownedBy(s, svc)), test.refusal)
		})
	}
}

func TestTheSignersOwnCA(t *testing.T) {
	signer := as(t, "servingcert-signer")
	ca := secret(api.DefaultNamespace, api.CASecretName, opaque)
	require.NoError(t, signer.Create(t.Context(), ca))
	filled(ca)
	require.NoError(t, signer.Update(t.Context(), ca))
	refusedWith(t, signer.Delete(t.Context(), ca), notTheCA)
	theCAKeepsItsOwners(t, ca)

	token := func(s *corev1.Secret) {
		s.Type = corev1.SecretTypeServiceAccountToken
		annotatedAsToken(s)
	}
	admin := adminClient(t)
	require.NoError(t, admin.Delete(t.Context(), ca))
	refusedWith(t, signer.Create(t.Context(), secret(api.DefaultNamespace, api.CASecretName, token)), onlyOpaque)
	refusedWith(t, signer.Create(t.Context(), secret(api.DefaultNamespace, api.CASecretName)), onlyOpaque)
	refusedWith(t, signer.Create(t.Context(), secret(api.DefaultNamespace, api.CASecretName, opaque, annotatedAsToken)), notAToken)

	// Of a type that an administrator chose when they restored it.
	ca = secret(api.DefaultNamespace, api.CASecretName)
	require.NoError(t, admin.Create(t.Context(), ca))
	filled(ca)
	require.NoError(t, signer.Update(t.Context(), ca))
	annotatedAsToken(ca)
	refusedWith(t, signer.Update(t.Context(), ca), notAToken)
	require.NoError(t, admin.Update(t.Context(), ca))
	ca.Data[corev1.TLSCertKey] = []byte("another")
	require.NoError(t, signer.Update(t.Context(), ca), "the annotation is somebody else's")

	elsewhere := secret(newNamespace(t, true), api.CASecretName, opaque)
	refusedWith(t, signer.Create(t.Context(), elsewhere), onlyTLS)
	beside := secret(api.DefaultNamespace, api.CASecretName+"-2", opaque)
	refusedWith(t, signer.Create(t.Context(), beside), onlyTLS)

	require.NoError(t, admin.Delete(t.Context(), ca), "the policy is about the signer and nobody else")
}

func finalized(s *corev1.Secret) { s.Finalizers = []string{"example.com/stays"} }

// The garbage collector would delete a CA whose owner does not exist, and a person could not delete one with a
// finalizer.
func theCAKeepsItsOwners(t *testing.T, ca *corev1.Secret) {
	t.Helper()
	signer, admin := as(t, "servingcert-signer"), adminClient(t)
	for refusal, change := range map[string]func(*corev1.Secret){
		notItsOwners: func(s *corev1.Secret) { owned(s); s.OwnerReferences[0].UID = "of-no-service" },
		noFinalizers: finalized,
	} {
		t.Run(refusal, func(t *testing.T) {
			changed := ca.DeepCopy()
			change(changed)
			refusedWith(t, signer.Update(t.Context(), changed), refusal)
			for _, name := range []string{api.CASecretName, api.CAInterimName} {
				refusedWith(t, signer.Create(t.Context(), secret(api.DefaultNamespace, name, opaque, change)), refusal)
			}
		})
	}
	svc := newService(t, ca.Namespace)
	owned(ca)
	require.NoError(t, admin.Update(t.Context(), ownedBy(ca, svc)))
	ca.Data[corev1.TLSCertKey] = []byte("another")
	require.NoError(t, signer.Update(t.Context(), ca), "an owner that an administrator chose")
	disowned(ca)
	refusedWith(t, signer.Update(t.Context(), ca.DeepCopy()), notItsOwners)
	require.NoError(t, admin.Update(t.Context(), ca))
	require.NoError(t, admin.Delete(t.Context(), svc))
}

func TestWhatTheSignerMayChangeOfAService(t *testing.T) {
	signer := as(t, "servingcert-signer")
	const condition = `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Issued","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	for _, test := range []struct{ name, patch, refusal string }{
		{"its condition", fmt.Sprintf(condition, api.ConditionReady), ""},
		{"its condition away", `{"status":{"conditions":[{"type":"servingcert.dev/Ready","$patch":"delete"}]}}`, ""},
		{"the rotator's condition", fmt.Sprintf(condition, api.ConditionServing), "condition servingcert.dev/Ready only"},
		{"the rotator's other condition", fmt.Sprintf(condition, api.ConditionPodsHealthy), "condition servingcert.dev/Ready only"},
		{"somebody's condition", fmt.Sprintf(condition, "example.com/Programmed"), "condition servingcert.dev/Ready only"},
		{"somebody's condition away", `{"status":{"conditions":[{"type":"example.com/There","$patch":"delete"}]}}`, "condition servingcert.dev/Ready only"},
		{"the load balancer", loadBalancer, "may not change status.loadBalancer"},
		{"a label", `{"metadata":{"labels":{"app":"other"}}}`, "may not change a Service's labels, finalizers or owners"},
		{"an annotation", `{"metadata":{"annotations":{"servingcert.dev/secret-name":"other"}}}`, "annotations only where service-ca would"},
		{"an annotation of service-ca's, and nobody asks in its words", `{"metadata":{"annotations":{"service.beta.openshift.io/serving-cert-generation-error":"x"}}}`, "annotations only where service-ca would"},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, "may not change a Service's labels, finalizers or owners"},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1"}]}}`, "may not change a Service's labels, finalizers or owners"},
	} {
		t.Run(test.name, func(t *testing.T) {
			svc := newService(t, newNamespace(t, true))
			refusedWith(t, patchStatus(t.Context(), signer, svc, test.patch), test.refusal)
		})
	}
}

func newService(t *testing.T, namespace string) *corev1.Service {
	t.Helper()
	admin := adminClient(t)
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}}},
	}
	require.NoError(t, admin.Create(t.Context(), svc))
	svc.Status.Conditions = []metav1.Condition{{Type: "example.com/There", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
	require.NoError(t, admin.Status().Update(t.Context(), svc))
	says(t, "servingcert-signer", svc, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "R"})
	return svc
}

// says has one of servingcert's ServiceAccounts write its condition of the Service.
func says(t *testing.T, account string, svc *corev1.Service, condition metav1.Condition) {
	t.Helper()
	patch, err := state.Patch(&corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: svc.UID}}, condition.Type, &state.Condition{Condition: condition, State: "{}"}, nil, time.Now())
	require.NoError(t, err)
	c := as(t, account)
	harness.Eventually(t, func() error { // its rights may have been written a moment ago
		return c.Status().Patch(t.Context(), svc, client.RawPatch(types.StrategicMergePatchType, patch))
	})
}

func patchStatus(ctx context.Context, c client.Client, svc *corev1.Service, patch string, opts ...client.SubResourcePatchOption) error {
	return c.Status().Patch(ctx, svc.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), opts...)
}

// refusedWith checks that a policy refused a write in the given words, or that
// it went through if there are none.
func refusedWith(t *testing.T, err error, words string) {
	t.Helper()
	if words == "" {
		assert.NoError(t, err)
		return
	}
	assert.ErrorContains(t, err, "ValidatingAdmissionPolicy")
	assert.ErrorContains(t, err, words)
}
