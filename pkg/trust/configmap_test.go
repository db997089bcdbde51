package trust

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfOtherKeysTheNamesAreKeptWhileThereIsRoom(t *testing.T) {
	fits, long := strings.Repeat("a", maxOtherKeys), strings.Repeat("b", maxOtherKeys+1)
	for want, key := range map[bool]string{true: fits, false: long} {
		cm := &corev1.ConfigMap{Data: map[string]string{key: "of no interest"}}
		StripConfigMap(cm, Request{Requested: true, Key: "ca.crt", Alone: true})
		value, kept := cm.Data[key]
		assert.Equal(t, want, kept)
		assert.Empty(t, value)
	}
	cm := &corev1.ConfigMap{Data: map[string]string{fits: "of no interest"}}
	StripConfigMap(cm, Request{Requested: true, Key: "ca.crt"})
	assert.Empty(t, cm.Data, "other keys may be beside the bundle")
}

func TestADigestIsNoLongerThanItsValue(t *testing.T) {
	whole := strings.Repeat("x", len(digestPrefix)+sha256.Size)
	assert.Equal(t, whole, digest(whole))
	assert.Equal(t, digestOf(sha256.Sum256([]byte(whole+"x"))), digest(whole+"x"))
	assert.Equal(t, digest(whole+"x"), digest(digest(whole+"x")))
}

func TestIsOwnEntry(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	for want, entries := range map[bool][]metav1.ManagedFieldsEntry{
		true: {{Manager: FieldManager, Operation: apply}},
		false: {
			{Manager: "kubectl", Operation: apply},
			{Manager: FieldManager, Operation: update},
			{Manager: FieldManager, Operation: apply, Subresource: "status"},
			{Manager: "kubectl", Operation: update},
		},
	} {
		for _, e := range entries {
			assert.Equal(t, want, IsOwnEntry(e), e)
		}
	}
}
