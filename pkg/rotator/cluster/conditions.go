package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
)

// Conditions writes the conditions of one type of Services, and remembers what it wrote
// until the cache has seen it.
type Conditions struct {
	conditionType string
	writer        client.StatusClient
	now           func() time.Time
	written       *facts.Written[*state.Condition] // nil for none
}

// Conditions returns what writes the conditions of that type.
func (c *Cluster) Conditions(conditionType string) *Conditions {
	return newConditions(conditionType, c.mgr.GetClient(), c.Now)
}

func newConditions(conditionType string, writer client.StatusClient, now func() time.Time) *Conditions {
	return &Conditions{conditionType: conditionType, writer: writer, now: now, written: facts.NewWritten[*state.Condition]()}
}

// AsWritten returns the Service with the condition that this process wrote, if the
// cache is behind.
func (c *Conditions) AsWritten(svc *corev1.Service) *corev1.Service {
	condition, behind := c.written.Newer(client.ObjectKeyFromObject(svc), svc.ResourceVersion, c.now())
	if !behind {
		return svc
	}
	out := *svc
	others := slices.DeleteFunc(slices.Clone(svc.Status.Conditions), func(has metav1.Condition) bool {
		return has.Type == c.conditionType || has.Type == c.conditionType+api.StateSuffix
	})
	out.Status.Conditions = slices.Concat(others, condition.Both())
	return &out
}

// Set writes the condition if the Service, which is one of AsWritten, has another; want
// is nil for none. It reports whether it wrote: not if the Service was deleted, which
// is an event of its own.
func (c *Conditions) Set(ctx context.Context, svc *corev1.Service, want *state.Condition) (wrote bool, err error) {
	now := c.now()
	patch, err := state.Patch(svc, c.conditionType, want, nil, now)
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
	c.written.Put(client.ObjectKeyFromObject(svc), patched.ResourceVersion, state.Of(patched, c.conditionType), now)
	return true, nil
}

// Deleted forgets what was written to a Service that was deleted.
func (c *Conditions) Deleted(svc *corev1.Service) {
	c.written.Deleted(client.ObjectKeyFromObject(svc), svc.ResourceVersion)
}
