package ca

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
)

func started(t *testing.T, change ...func(*cacontroller.Config)) (*signer, objects) {
	t.Helper()
	namespace, cfg := newNamespace(t)
	s := startSigner(t, namespace, cfg, change...)
	s.eventuallyReason(t, "")
	o := objects{namespace, admin}
	o.eventuallyStatus(t, func(*corev1.ConfigMap) bool { return true })
	return s, o
}

func TestFirstStartCreates(t *testing.T) {
	s, o := started(t)
	authority, err := s.Authority()
	require.NoError(t, err)
	require.NoError(t, s.Ready(nil))
	assert.NoError(t, pki.CheckCA(authority.Certificate, authority.Key, time.Now()))
	assert.Equal(t, ca.DefaultCADuration, pki.Lifetime(authority.Certificate))
	assert.Empty(t, authority.Chain, "a first generation is signed by none")
	assert.True(t, authority.SignUntil.After(time.Now().Add(api.DefaultLimits().MaxDuration)))

	stored, err := ca.ParseState(o.secret(t).Data)
	require.NoError(t, err)
	assert.True(t, stored.Generations[0].Root.Equal(authority.Certificate))
	assert.NotContains(t, o.secret(t).Labels, api.LabelManagedBy, "the CA is no certificate to re-issue")

	cm := o.status(t)
	assert.Equal(t, string(authority.Bundle.PEM()), cm.Data[api.BundleKey])
	assert.Equal(t, authority.Bundle.Hash(), cm.Data[api.CABundleHash])
	assert.Equal(t, "1", cm.Data[api.CAGeneration])
	assert.NotContains(t, cm.Data, api.CAProblem)
	eventuallyEvent(t, o, cacontroller.EventCreated)
}

func TestRestartLoadsTheSame(t *testing.T) {
	namespace, cfg := newNamespace(t)
	first := startSigner(t, namespace, cfg)
	first.eventuallyReason(t, "")
	before, err := first.Authority()
	require.NoError(t, err)
	o := objects{namespace, admin}
	o.eventuallyStatus(t, func(*corev1.ConfigMap) bool { return true })
	first.stop(t)
	secret, status := o.secret(t), o.status(t)

	second := startSigner(t, namespace, cfg)
	second.eventuallyReason(t, "")
	after, err := second.Authority()
	require.NoError(t, err)
	assert.True(t, before.Certificate.Equal(after.Certificate))
	second.stop(t)
	assert.Equal(t, secret.ResourceVersion, o.secret(t).ResourceVersion, "a restart writes nothing")
	assert.Equal(t, status.ResourceVersion, o.status(t).ResourceVersion, "a restart writes nothing")
}

func TestLostIsNeverMadeAnew(t *testing.T) {
	s, o := started(t)
	before, err := s.Authority()
	require.NoError(t, err)
	backup, bundle := o.secret(t).Data, o.status(t).Data[api.BundleKey]

	o.deleteSecret(t)
	s.eventuallyReason(t, api.CALost)
	cm := o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return strings.HasPrefix(cm.Data[api.CAProblem], api.CALost) })
	assert.Equal(t, bundle, cm.Data[api.BundleKey], "clients keep trusting what is served")
	require.Error(t, s.Ready(nil))
	eventuallyEvent(t, o, api.CALost)

	// Neither a stranger's root in the meantime nor a restart changes it.
	patchStatus(t, o, map[string]any{"data": map[string]any{api.BundleKey: bundle + "stranger"}})
	o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return cm.Data[api.BundleKey] == bundle })
	s.stop(t)
	again := startSigner(t, o.namespace, plane.AdminConfig())
	again.eventuallyReason(t, api.CALost)
	_, err = admin.CoreV1().Secrets(o.namespace).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "a new CA was made: %v", err)

	o.createSecret(t, backup)
	again.eventuallyReason(t, "")
	after, err := again.Authority()
	require.NoError(t, err)
	assert.True(t, before.Certificate.Equal(after.Certificate))
	require.NoError(t, again.Ready(nil))
	o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { _, ok := cm.Data[api.CAProblem]; return !ok })
	eventuallyEvent(t, o, cacontroller.EventUsable)
	assert.GreaterOrEqual(t, again.changes.Load(), int32(2), "the signer is told of the loss and of its end")
}

func TestNotKnowingIsNoFirstStart(t *testing.T) {
	namespace, cfg := newNamespace(t)
	s := startSigner(t, namespace, cfg, func(c *cacontroller.Config) {
		c.ManagedExist = func(context.Context) (bool, error) { return false, errors.New("API server away") }
	})
	require.Eventually(t, func() bool { return s.Ready(nil) != nil }, waitFor, tick)
	assert.Equal(t, api.CAPending, s.reason())
	assert.ErrorContains(t, s.Ready(nil), "API server away")
	_, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestStatusIsRestored(t *testing.T) {
	s, o := started(t)
	authority, err := s.Authority()
	require.NoError(t, err)
	want := o.status(t)
	other, _ := started(t)
	stranger, err := other.Authority()
	require.NoError(t, err)

	patchStatus(t, o, map[string]any{
		"metadata": map[string]any{
			"annotations": map[string]any{"mine": "stays"},
			"labels":      map[string]any{"app.kubernetes.io/name": "other", "mine": "stays"},
		},
		"data": map[string]any{api.BundleKey: string(authority.Bundle.PEM()) + string(stranger.Bundle.PEM()), "more": "x"},
	})
	restored := o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return cm.Data[api.BundleKey] == want.Data[api.BundleKey] })
	assert.Equal(t, want.Data, restored.Data)
	assert.Equal(t, "stays", restored.Annotations["mine"], "a user's annotation stays")
	assert.Equal(t, "stays", restored.Labels["mine"], "a user's label stays")
	assert.Equal(t, "servingcert", restored.Labels["app.kubernetes.io/name"])
	eventuallyEvent(t, o, cacontroller.EventRestored)

	require.NoError(t, admin.CoreV1().ConfigMaps(o.namespace).Delete(t.Context(), api.CAStatusName, metav1.DeleteOptions{}))
	restored = o.eventuallyStatus(t, func(cm *corev1.ConfigMap) bool { return cm.UID != want.UID })
	assert.Equal(t, want.Data, restored.Data)
}

// touch makes the signer look again, by spoiling the status, and returns what
// was written.
func touch(t *testing.T, o objects) *corev1.ConfigMap {
	t.Helper()
	return patchStatus(t, o, map[string]any{"data": map[string]any{"touched": time.Now().String()}})
}

func patchStatus(t *testing.T, o objects, patch map[string]any) *corev1.ConfigMap {
	t.Helper()
	body, err := json.Marshal(patch)
	require.NoError(t, err)
	cm, err := admin.CoreV1().ConfigMaps(o.namespace).Patch(t.Context(), api.CAStatusName, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
	return cm
}

func eventuallyEvent(t *testing.T, o objects, reason string) {
	t.Helper()
	require.Eventually(t, func() bool {
		events, err := admin.EventsV1().Events(o.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, e := range events.Items {
			if e.Reason == reason && e.Regarding.Name == api.CASecretName {
				return true
			}
		}
		return false
	}, waitFor, tick, "no event %s", reason)
}

// assertNoKey looks for any line of the key's PEM.
func assertNoKey(t *testing.T, key []byte, text string) {
	t.Helper()
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			assert.NotContains(t, text, line)
		}
	}
}

func TestMarkIsRaisedOnceADay(t *testing.T) {
	s, o := started(t)
	mark := func() time.Time {
		stored, err := ca.ParseState(o.secret(t).Data)
		require.NoError(t, err)
		return stored.Generations[0].UsedUntil
	}
	before, changes := mark(), s.changes.Load()

	s.clock.Set(time.Now().Add(25 * time.Hour))
	touch(t, o)
	require.Eventually(t, func() bool { return mark().After(before) }, waitFor, tick)
	raised := mark()
	assert.InDelta(t, 25*time.Hour, raised.Sub(before), float64(time.Minute))
	require.Eventually(t, func() bool { a, err := s.Authority(); return err == nil && a.SignUntil.Equal(raised) }, waitFor, tick)
	assert.Equal(t, changes, s.changes.Load(), "a raised mark is no reason to look at every certificate")

	s.clock.Set(time.Now().Add(48 * time.Hour))
	rv := o.secret(t).ResourceVersion
	cm := touch(t, o)
	o.eventuallyStatus(t, func(now *corev1.ConfigMap) bool { return now.ResourceVersion != cm.ResourceVersion })
	assert.Equal(t, rv, o.secret(t).ResourceVersion, "the mark was raised twice within a day")
}
