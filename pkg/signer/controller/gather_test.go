package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// What this process wrote to a Service counts until the cache has seen it: the
// condition and the annotations that the signer writes, and nothing else.
func TestWhatAServiceSaysIsWhatWasWritten(t *testing.T) {
	cached := service("web", api.OpenShiftError, "old", api.OpenShiftErrorNum, "1", "team", "shop")
	cached.ResourceVersion = "9"
	cached.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Reason: "InvalidAnnotation", Message: "old"}}
	before := cached.DeepCopy()
	patched := service("web", api.OpenShiftSignedBy, "servingcert CA 1", "team", "another")
	patched.ResourceVersion = "10"
	patched.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Reason: "Issued", Message: "new"}, {Type: api.ConditionServing}}

	c := &Controller{wroteStatus: facts.NewWritten[stated]()}
	assert.Same(t, cached, c.current(cached, epoch), "nothing was written")
	c.wroteStatus.Put(client.ObjectKeyFromObject(patched), patched.ResourceVersion, statedBy(patched), epoch)
	now := c.current(cached, epoch)
	assert.Equal(t, map[string]string{api.AnnotationSecretName: "web-tls", api.OpenShiftSignedBy: "servingcert CA 1", "team": "shop"}, now.Annotations)
	require.Equal(t, patched.Status.Conditions[:1], now.Status.Conditions)
	assert.Equal(t, before, cached, "the cache's object is not changed")

	seen := cached.DeepCopy()
	seen.ResourceVersion = "10"
	assert.Same(t, seen, c.current(seen, epoch), "the cache has seen it")

	patched.Status.Conditions = nil
	c.wroteStatus.Put(client.ObjectKeyFromObject(patched), "11", statedBy(patched), epoch)
	assert.Empty(t, c.current(seen, epoch).Status.Conditions, "the condition was removed")
}
