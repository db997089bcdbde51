package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// asWritten returns the Service with the condition that this process wrote, if the
// cache is behind.
func (r *reconciler) asWritten(svc *corev1.Service) *corev1.Service {
	condition, behind := r.written.Newer(client.ObjectKeyFromObject(svc), svc.ResourceVersion, r.cluster.Now())
	if !behind {
		return svc
	}
	out := *svc
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(svc.Status.Conditions), func(c metav1.Condition) bool { return c.Type == api.ConditionServing })
	if condition != nil {
		out.Status.Conditions = append(out.Status.Conditions, *condition)
	}
	return &out
}

// write sets the conditions.
func (r *reconciler) write(ctx context.Context, changes []serving.Change) error {
	var errs []error
	for _, change := range changes {
		errs = append(errs, r.setCondition(ctx, change))
	}
	return errors.Join(errs...)
}

// setCondition writes the condition if the Service has another.
func (r *reconciler) setCondition(ctx context.Context, change serving.Change) error {
	svc, now := change.Service, r.cluster.Now()
	patch, err := api.ConditionPatch(svc.UID, api.ConditionServing, api.Condition(svc, api.ConditionServing), change.Want, nil, now)
	if err != nil || patch == nil {
		return err
	}
	patched := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	err = r.writer.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // deleted, or made again: an event of its own
	case err != nil:
		return fmt.Errorf("write the status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	r.written.Put(client.ObjectKeyFromObject(svc), patched.ResourceVersion, api.Condition(patched, api.ConditionServing), now)
	return nil
}
