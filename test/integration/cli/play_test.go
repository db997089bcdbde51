package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// system is a namespace in which the test plays the signer and the rotator.
type system struct{ namespace string }

// newSystem returns one in which all of servingcert runs.
func newSystem(t *testing.T) system {
	t.Helper()
	s := system{newNamespace(t, "sys", nil)}
	holder, long := "test", int32(3600)
	for _, name := range []string{"signer", "trust", "rotator"} {
		now := metav1.NowMicro()
		_, err := admin.CoordinationV1().Leases(s.namespace).Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "servingcert-" + name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &long, RenewTime: &now},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	playWebhook(t, s.namespace)
	return s
}

// playWebhook plays that a webhook runs in the namespace.
func playWebhook(t *testing.T, namespace string) {
	t.Helper()
	_, err := admin.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "servingcert-webhook", Labels: map[string]string{discoveryv1.LabelServiceName: "servingcert-webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// ends plays that a process ends, which releases its Lease.
func (s system) ends(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := admin.CoordinationV1().Leases(s.namespace).Patch(t.Context(), "servingcert-"+name, types.MergePatchType,
			[]byte(`{"spec":{"holderIdentity":"","leaseDurationSeconds":1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// stable is the status of a CA of one generation.
func stable() map[string]string {
	return map[string]string{
		api.CAGeneration: "1", api.CAPhase: api.PhaseStable, api.CASince: "2026-03-01T12:00:00Z",
		api.CANotAfter: "2028-03-01T12:00:00Z", api.CABundleHash: strings.Repeat("ab", 32),
	}
}

func with(data map[string]string, pairs ...string) map[string]string {
	data = maps.Clone(data)
	for i := 0; i+1 < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	return data
}

// publish writes a ConfigMap's data and leaves its annotations alone, as the
// signer and the rotator do.
func (s system) publish(ctx context.Context, name string, data map[string]string) error {
	maps := admin.CoreV1().ConfigMaps(s.namespace)
	cm, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		return err
	}
	cm.Data = data
	_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	return err
}

func (s system) ca(t *testing.T, data map[string]string) {
	t.Helper()
	require.NoError(t, s.publish(t.Context(), api.CAStatusName, data))
}

func (s system) status(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := admin.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

// asked waits for a request by annotation and returns it as MODE:REASON.
func (s system) asked(t *testing.T) string {
	t.Helper()
	var request string
	require.Eventually(t, func() bool {
		a := s.status(t).Annotations
		request = a[api.AnnotationRotateMode] + ":" + a[api.AnnotationRotate]
		return a[api.AnnotationRotate] != ""
	}, patience, 20*time.Millisecond, "nobody asked for a rotation")
	return request
}

// shown waits until the command has printed the text.
func (c *command) shown(t *testing.T, text string) {
	t.Helper()
	if !assert.Eventually(t, func() bool { return strings.Contains(c.out.String(), text) }, patience, 20*time.Millisecond, "not shown: %s", text) {
		t.Fatalf("it has printed:\n%s%s", c.out.String(), c.err.String())
	}
}

// annotate sets annotations of the status as a person would.
func (s system) annotate(t *testing.T, annotations map[string]string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	require.NoError(t, err)
	_, err = admin.CoreV1().ConfigMaps(s.namespace).Patch(t.Context(), api.CAStatusName, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// makeService makes a Service that asks for Secret NAME-tls, for as long as the
// test: some commands look at the Services of all namespaces.
func makeService(t *testing.T, namespace, name string) *corev1.Service {
	t.Helper()
	svc, err := admin.CoreV1().Services(namespace).Create(t.Context(), harness.Service(namespace, name), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = admin.CoreV1().Services(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}) // may be gone
	})
	return svc
}

// setReady writes the condition as the signer does of a Service without a certificate.
func setReady(ctx context.Context, namespace, name string, status metav1.ConditionStatus, reason, message string) error {
	return writeReady(ctx, namespace, name, status, reason, message, state.Ready{})
}

// setIssued writes the condition as the signer does, and says that the leaf is served, as the
// rotator does.
func setIssued(ctx context.Context, namespace, name, leaf string) error {
	return writeReady(ctx, namespace, name, metav1.ConditionTrue, "Issued", "issued", state.Ready{Secret: "web-tls", Leaf: leaf})
}

func writeReady(ctx context.Context, namespace, name string, status metav1.ConditionStatus, reason, message string, said state.Ready) error {
	svc, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ready := metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	svc.Status.Conditions = state.Say(ready, said).Both()
	if said.Leaf != "" {
		svc.Status.Conditions = append(svc.Status.Conditions, servingConditions(metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", state.Serving{Leaf: said.Leaf, Since: time.Now(), Ports: api.NeedsHash(svc)})...)
	}
	_, err = admin.CoreV1().Services(namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	return err
}

// setServing writes the condition as the rotator does, of the leaf that the Service has.
func setServing(t *testing.T, namespace, name string, status metav1.ConditionStatus, reason, message string, since time.Time) {
	t.Helper()
	svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	leaf, ok := state.LeafOf(svc)
	require.True(t, ok)
	svc.Status.Conditions = append(state.Of(svc, api.ConditionReady).Both(), servingConditions(status, reason, message, state.Serving{Leaf: leaf, Since: since, Ports: api.NeedsHash(svc)})...)
	_, err = admin.CoreV1().Services(namespace).UpdateStatus(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func servingConditions(status metav1.ConditionStatus, reason, message string, said state.Serving) []metav1.Condition {
	c := metav1.Condition{Type: api.ConditionServing, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	return state.Say(c, said).Both()
}

// newCA makes a CA that signs now.
func newCA(t *testing.T) *pki.Authority {
	t.Helper()
	now := time.Now()
	return signertest.NewCA(t, api.DefaultLimits().Constraints(), now.Add(-time.Hour), now.Add(8760*time.Hour))
}

// issueBy makes what the signer makes for a Service: the Secret and the condition.
func issueBy(t *testing.T, ca *pki.Authority, svc *corev1.Service) issue.Issued {
	t.Helper()
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	wanted, _, ok := api.Merge([]*corev1.Service{svc}, api.DefaultLimits())
	require.True(t, ok)
	issued, err := issue.Issue(t.Context(), sign, ca, wanted, time.Now())
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name + "-tls", Labels: map[string]string{api.LabelManagedBy: api.DefaultInstance}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
	_, err = admin.CoreV1().Secrets(svc.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, setIssued(t.Context(), svc.Namespace, svc.Name, pki.Fingerprint(issued.Leaf)))
	return issued
}

// publishBundle writes the namespace's bundle as the rotator does.
func publishBundle(t *testing.T, namespace string, bundle pki.Bundle) {
	t.Helper()
	require.NoError(t, system{namespace}.publish(t.Context(), api.BundleName, map[string]string{api.BundleKey: string(bundle.PEM())}))
}

// hash is a leaf's fingerprint that no certificate has.
func hash(n int) string { return fmt.Sprintf("%064x", n) }
