package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestEqualConditionIsNotWritten(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	c := &Conditions{conditionType: api.ConditionServing, now: func() time.Time { return rotatortest.Noon }}
	wrote, err := c.Set(t.Context(), svc, state.Of(svc, api.ConditionServing))
	assert.NoError(t, err)
	assert.False(t, wrote)
}

// The API server answers Conflict to a patch after a few attempts of its own. Nothing else leads to
// another attempt.
func TestConflictIsAnError(t *testing.T) {
	svc := rotatortest.Serves(rotatortest.Ready("web", rotatortest.Leaf(2)), rotatortest.Leaf(1), rotatortest.Noon)
	writer := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", assert.AnError)
		},
	})
	c := &Conditions{conditionType: api.ConditionServing, writer: writer, now: func() time.Time { return rotatortest.Noon }}
	wrote, err := c.Set(t.Context(), svc, nil)
	assert.ErrorContains(t, err, "write the status of Service shop/web")
	assert.False(t, wrote)
}
