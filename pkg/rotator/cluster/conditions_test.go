package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestWhatWasWrittenIsNotWrittenAgain(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	svc.ResourceVersion = "99"
	wrote := state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent, Message: "new"}, state.Serving{Leaf: rotatortest.Leaf(2), Since: rotatortest.Noon})
	c := newConditions(api.ConditionServing, nil, func() time.Time { return rotatortest.Noon })
	key := client.ObjectKeyFromObject(svc)
	c.written.Put(key, "100", wrote, rotatortest.Noon)
	got := c.AsWritten(svc)
	assert.True(t, state.Same(wrote, state.Of(got, api.ConditionServing)))
	assert.NotNil(t, api.Condition(got, api.ConditionReady))
	assert.Contains(t, state.Of(svc, api.ConditionServing).State, rotatortest.Leaf(1), "the cache's object is left alone")

	c.written.Put(key, "100", nil, rotatortest.Noon)
	assert.Nil(t, state.Of(c.AsWritten(svc), api.ConditionServing), "it was removed")
	svc.ResourceVersion = "100"
	assert.Same(t, svc, c.AsWritten(svc), "the cache has seen it")
}

func TestWhatAServiceSaysAlreadyIsNotWritten(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	c := newConditions(api.ConditionServing, nil, func() time.Time { return rotatortest.Noon })
	wrote, err := c.Set(t.Context(), svc, state.Of(svc, api.ConditionServing))
	assert.NoError(t, err)
	assert.False(t, wrote)
}

// The API server answers Conflict to a patch after a few attempts of its own, whoever else wrote. Nothing else leads to
// another attempt then.
func TestAConflictIsAnErrorAndNotTheEnd(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	writer := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", assert.AnError)
		},
	})
	wrote, err := newConditions(api.ConditionServing, writer, func() time.Time { return rotatortest.Noon }).Set(t.Context(), svc, nil)
	assert.ErrorContains(t, err, "write the status of Service shop/web")
	assert.False(t, wrote)
}
