package succession

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// putBack writes a Secret as it was before.
func putBack(t *scene, old *corev1.Secret) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := t.admin.CoreV1().Secrets(old.Namespace).Get(t.Context(), old.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		secret.Data, secret.Labels, secret.Annotations = old.Data, old.Labels, old.Annotations
		_, err = t.admin.CoreV1().Secrets(old.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		return err
	}))
}

// issuedBy waits until the servers that reload have certificates of the
// generation only.
func (tr *traffic) issuedBy(t *scene, generation string) {
	t.Helper()
	require.Eventually(t, func() bool {
		issuers := tr.issuers()
		return len(issuers) == 1 && strings.HasPrefix(issuers[0], "servingcert CA "+generation+" ")
	}, waitFor, tick, "certificates of generation %s", generation)
}

// promotedAgain waits until the newest generation, which signed before, signs anew: its root was there,
// and it waited as it had the first time.
func promotedAgain(t *scene, before ca.Generation) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := stored(t)
		last := s.Generations[len(s.Generations)-1]
		return last.Root.Equal(before.Root) && last.SignsSince.After(before.SignsSince)
	}, waitFor, tick, "it is promoted again")
	signedBy(t, fmt.Sprint(before.Number))
}

// succeeded has a second generation sign, and returns the signer, the shop's traffic, and what was there before the
// succession, and in its middle, as long as nobody distributed the new root.
func succeeded[T any](t *scene, now func(*scene) T) (signer *process, tr *traffic, before, middle T) {
	t.Helper()
	signer = start(t, "signer", fast...)
	trust := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr = startTraffic(t, "shop", services, time.Now)
	before = now(t)
	trust.stop(t)
	ask(t, "audit")
	require.Eventually(t, func() bool { return len(stored(t).Generations) == 2 }, waitFor, tick)
	middle = now(t)
	require.Equal(t, 1, stored(t).Signing)
	trust.Start(t)
	signedBy(t, "2")
	return signer, tr, before, middle
}

// The CA Secret is put back as it was before a succession, or in its middle: from a
// backup. What it does not know is replaced, and the succession goes on, or is made
// anew, with a number that was not used yet.
func TestRestoredBackup(test *testing.T) {
	t := fresh(test)
	signer, tr, before, waiting := succeeded(t, secret)
	second := stored(t).Generations[1]

	// From before it signed: it is there, and signs again.
	putBack(t, waiting)
	requireSaid(t, api.CARestored)
	promotedAgain(t, second)
	tr.issuedBy(t, "2")
	tr.requireNoFailure(t)

	// From before it was made, and nobody asks any more.
	patchStatus(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRotate: nil}}})
	putBack(t, before)
	tr.issuedBy(t, "1")
	restored := eventually(t, "it is said as long as it is so", func(cm *corev1.ConfigMap) bool { // it signs before that is published
		return cm.Data[api.CAGeneration] == "1" && strings.Contains(cm.Data[api.CAWarning], api.CARestored+": ")
	})
	assert.Empty(t, restored.Data[api.CAProblem])
	tr.requireNoFailure(t)

	ask(t, "again")
	after := signedBy(t, "3")
	assert.NotContains(t, after.Data[api.CAWarning], api.CARestored)
	tr.issuedBy(t, "3")
	tr.requireNoFailure(t)
	assert.NotContains(t, signer.Log.String(), api.CALost)
	assert.NotContains(t, signer.Log.String(), "panic")
}

// image is everything of ours that a backup of a cluster holds.
type image struct {
	secrets    []corev1.Secret
	configMaps []corev1.ConfigMap
}

var ourNamespaces = []string{api.DefaultNamespace, "shop"}

func imageOf(t *scene) image {
	t.Helper()
	var out image
	for _, namespace := range ourNamespaces {
		secrets, err := t.admin.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		configMaps, err := t.admin.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		out.secrets, out.configMaps = append(out.secrets, secrets.Items...), append(out.configMaps, configMaps.Items...)
	}
	return out
}

// restore puts everything back, in the order of names, as tools do.
func (i image) restore(t *scene) {
	t.Helper()
	for _, old := range i.configMaps {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			cm, err := t.admin.CoreV1().ConfigMaps(old.Namespace).Get(t.Context(), old.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			cm.Data, cm.Labels, cm.Annotations = old.Data, old.Labels, old.Annotations
			_, err = t.admin.CoreV1().ConfigMaps(old.Namespace).Update(t.Context(), cm, metav1.UpdateOptions{})
			return err
		}))
	}
	for _, old := range i.secrets {
		putBack(t, &old)
	}
}

// A whole cluster is put back to before a succession, to its middle, and back to
// where it was, while signer and rotator run.
func TestRestoredCluster(test *testing.T) {
	t := fresh(test)
	signer, tr, before, middle := succeeded(t, imageOf)
	after := imageOf(t)
	second := stored(t).Generations[1]

	middle.restore(t)
	promotedAgain(t, second)
	tr.issuedBy(t, "2")
	tr.requireNoFailure(t)

	before.restore(t)
	eventually(t, "there was no succession", func(cm *corev1.ConfigMap) bool {
		return cm.Data[api.CAGeneration] == "1" && cm.Data[api.CAPhase] == api.PhaseStable && cm.Data[api.CARotation] == ""
	})
	tr.issuedBy(t, "1")
	tr.requireNoFailure(t)

	after.restore(t)
	signedBy(t, "2")
	tr.issuedBy(t, "2")
	assert.True(t, stored(t).Generations[1].Root.Equal(second.Root))
	tr.requireNoFailure(t)
	assert.NotContains(t, signer.Log.String(), api.CALost)
	assert.NotContains(t, signer.Log.String(), "panic")
}
