package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// The certificate of before that comes back to condition Ready, after a failure, is not a new one.
func TestTheCertificateOfBeforeIsNotNew(t *testing.T) {
	failed := service("web", metav1.ConditionUnknown, api.ServingNotVerified, "")
	failed.Leaf, failed.Serving.Leaf = "", "old"
	r := RenewalOf(failed)
	again := failed
	again.Leaf = "old"
	assert.Empty(t, r.Observe(again).Leaf)
	again.Leaf = "new"
	assert.Equal(t, RenewalDone, r.Observe(again).State)
	assert.Equal(t, "new", r.Observe(again).Leaf)
}
