package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
)

// Conditions writes the conditions of one type of Services.
type Conditions struct {
	conditionType string
	writer        client.StatusClient
	now           func() time.Time
	services      *facts.Seen
}

// Conditions returns the writer of conditions of that type.
func (c *Cluster) Conditions(conditionType string) *Conditions {
	return &Conditions{conditionType, c.mgr.GetClient(), c.Now, c.seen}
}

// Set writes the condition if the Service has a different one, and returns once the cache has seen
// the write. If want is nil, it removes the condition. wrote is false if the Service was deleted,
// which triggers an event of its own.
func (c *Conditions) Set(ctx context.Context, svc *corev1.Service, want *state.Condition) (wrote bool, err error) {
	patch, err := state.Patch(svc, c.conditionType, want, nil, c.now())
	if err != nil || patch == nil {
		return false, err
	}
	patched := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	err = c.writer.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write the status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	c.services.Await(ctx, patched.ResourceVersion)
	return true, nil
}
