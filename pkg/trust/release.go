package trust

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// release gives up the ownership of our field in the object and leaves the field
// as it is, where the decision says so.
//
// Server-side apply has no word for that: applying without the field removes it.
// So our entry is taken out of metadata.managedFields, against the
// resourceVersion that was read.
//
// It is done where the bundle is no longer asked for, so that whoever takes the
// field over meets no conflict, and after each write where the field lies inside
// a structure that is not valid with it alone. There, ownership would tie the
// owner's hands: an entry of a webhook configuration that they remove by
// server-side apply would stay behind with nothing but our caBundle in it, and
// the API server would refuse their apply as invalid.
func (r *reconciler) release(ctx context.Context, object client.Object, d decision) (reconcile.Result, error) {
	if !d.release {
		return reconcile.Result{RequeueAfter: d.after}, nil
	}
	err := r.disown(ctx, object)
	if err == nil || isGone(err) {
		return reconcile.Result{RequeueAfter: d.after}, nil
	}
	reason := classify(err).Reason
	if reason == ReasonConflict {
		return reconcile.Result{RequeueAfter: minInterval}, nil
	}
	r.metrics.failed(r.target.Kind, reason)
	return reconcile.Result{}, fmt.Errorf("give up the field: %w", err)
}

// disown takes our entry out. object gets the resourceVersion that this leads to.
func (r *reconciler) disown(ctx context.Context, object client.Object) error {
	gvk, err := apiutil.GVKForObject(r.target.Object, r.events.scheme)
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return err
	}
	before := live.DeepCopy()
	live.ManagedFields = slices.DeleteFunc(live.ManagedFields, isOurs)
	if len(live.ManagedFields) == len(before.ManagedFields) {
		return nil // it was done, and the cache has not seen it yet
	}
	if len(live.ManagedFields) == 0 {
		live.ManagedFields = []metav1.ManagedFieldsEntry{{}} // an empty list would be taken for a client that does not know the field
	}
	if err := r.writer.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return err
	}
	object.SetResourceVersion(live.ResourceVersion)
	return nil
}

// isOurs reports whether the entry is that of our applies.
func isOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}
