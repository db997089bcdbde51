package wake

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const root = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"

func TestTrustOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status api.CAStatus
		want   Trust
	}{
		{"nothing is known", api.CAStatus{}, Trust{}},
		{"stable", api.CAStatus{Phase: api.PhaseStable, Bundle: root, Since: rotatortest.Noon}, Trust{}},
		{"succession, waiting", api.CAStatus{Phase: api.PhaseWait, Bundle: root + root}, Trust{}},
		{"succession, reissuing", api.CAStatus{Phase: api.PhaseReissue, Bundle: root + root}, Trust{Reissuing: true}},
		{"asked for, reissuing", api.CAStatus{Phase: api.PhaseReissue, Bundle: root + root, Rotation: api.RotateRequest{Mode: api.RotateForce}}, Trust{Reissuing: true}},
		{"distrust, reissuing", api.CAStatus{Phase: api.PhaseReissue, Bundle: root, Rotation: api.RotateRequest{Mode: api.RotateDistrust}}, Trust{Distrusted: true}},
		{"distrust, just done", api.CAStatus{Phase: api.PhaseStable, Bundle: root, Since: rotatortest.Noon.Add(-9 * time.Minute), Rotation: api.RotateRequest{Mode: api.RotateDistrust}}, Trust{Distrusted: true}},
		{"distrust, long ago", api.CAStatus{Phase: api.PhaseStable, Bundle: root, Since: rotatortest.Noon.Add(-10 * time.Minute), Rotation: api.RotateRequest{Mode: api.RotateDistrust}}, Trust{}},
		{"a lost CA was replaced", api.CAStatus{Phase: api.PhaseReissue, Bundle: root, Rotation: api.RotateRequest{Mode: api.RotateReplaceLost}}, Trust{Distrusted: true}},
		{"distrust, and a succession after it", api.CAStatus{Phase: api.PhaseReissue, Bundle: root + root, Since: rotatortest.Noon, Rotation: api.RotateRequest{Mode: api.RotateDistrust}}, Trust{Reissuing: true}},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, TrustOf(tt.status, rotatortest.Noon)) })
	}
}

func TestLeafContent(t *testing.T) {
	noon := rotatortest.Noon
	for _, tt := range []struct {
		name     string
		rotation serving.Rotation
		trust    Trust
		want     Class
	}{
		{"nothing else is known", serving.Rotation{}, Trust{}, Routine},
		{"was due", serving.Rotation{Due: noon.Add(-time.Second)}, Trust{}, Routine},
		{"was due, by a clock that is behind", serving.Rotation{Due: noon.Add(50 * time.Second)}, Trust{}, Routine},
		{"healed", serving.Rotation{Due: noon.Add(time.Hour)}, Trust{}, Urgent},
		{"not due, in a succession", serving.Rotation{Due: noon.Add(time.Hour)}, Trust{Reissuing: true}, Routine},
		{"distrusted", serving.Rotation{}, Trust{Distrusted: true}, Urgent},
		{"asked for", serving.Rotation{Asked: noon.Add(-time.Second)}, Trust{}, Urgent},
		{"asked for in a succession", serving.Rotation{Asked: noon.Add(-time.Second)}, Trust{Reissuing: true}, Urgent},
		{"asked for, by a clock that is ahead", serving.Rotation{Asked: noon.Add(time.Second)}, Trust{}, Urgent},
		{"asked for some time ago", serving.Rotation{Asked: noon.Add(-recently)}, Trust{}, Routine},
		{"asked for later", serving.Rotation{Asked: noon.Add(time.Hour)}, Trust{}, Routine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.rotation.Leaf, tt.rotation.Since, tt.rotation.Replaced = one, noon, true
			assert.Equal(t, Content{Hash: one, Since: noon, Changed: true, Class: tt.want}, LeafContent(tt.rotation, tt.trust))
			tt.rotation.Replaced = false
			assert.False(t, LeafContent(tt.rotation, tt.trust).Changed)
		})
	}
}

func TestBundleOf(t *testing.T) {
	at := func(after time.Duration) *metav1.Time {
		t := metav1.NewTime(rotatortest.Noon.Add(after))
		return &t
	}
	entry := func(after time.Duration, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: at(after), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const bundle, label = `{"f:data":{"f:ca.crt":{}}}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName, UID: "u", ResourceVersion: "7", CreationTimestamp: *at(0), Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{api.BundleKey: "", "other": "x"},
	}
	got := BundleOf(cm)
	_, ok := got.Content(Trust{})
	assert.False(t, ok, "it holds none")
	_, ok = (*Bundle)(nil).Content(Trust{})
	assert.False(t, ok)

	cm.Data[api.BundleKey] = root
	got = BundleOf(cm)
	assert.Equal(t, rotatortest.Noon, got.Since, "as old as the ConfigMap")
	assert.Equal(t, metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName, UID: "u", ResourceVersion: "7"}, got.ObjectMeta)
	assert.Len(t, got.Hash, 64)
	assert.Equal(t, got, got.DeepCopyObject())

	cm.ManagedFields = []metav1.ManagedFieldsEntry{entry(time.Hour, bundle), entry(2*time.Hour, label), {}, entry(time.Minute, bundle)}
	content, ok := BundleOf(cm).Content(Trust{})
	require.True(t, ok)
	assert.Equal(t, Content{Hash: got.Hash, Since: rotatortest.Noon.Add(time.Hour), Changed: true, Class: Routine}, content, "the last write of the bundle counts")
	content, _ = BundleOf(cm).Content(Trust{Distrusted: true})
	assert.Equal(t, Urgent, content.Class)
	cm.Data[api.BundleKey] = strings.Repeat(root, 2)
	assert.NotEqual(t, got.Hash, BundleOf(cm).Hash)
}
