package controller

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// fieldWriter writes the field of objects of one kind.
type fieldWriter struct {
	kind   target.Kind
	scheme *runtime.Scheme
	writer client.Writer
	live   client.Reader // the API server
}

// write puts the bundle into the object's field. object gets the resourceVersion of the
// last write before the apply, and stays as it is otherwise: what the API server answers does
// not have what a namespace asks for its ConfigMap.
func (w fieldWriter) write(ctx context.Context, object client.Object, bundle trust.Bundle) error {
	if w.kind.Moved(object, bundle) {
		if err := w.release(ctx, object); err != nil {
			return fmt.Errorf("release the field that held the CA bundle before: %w", err)
		}
	}
	if patch := w.kind.Clear(object, bundle); patch != nil {
		cleared := object.DeepCopyObject().(client.Object)
		err := w.writer.Patch(ctx, cleared, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(trust.FieldManager))
		if err != nil {
			return fmt.Errorf("remove keys that may not be beside the CA bundle: %w", err)
		}
		object.SetResourceVersion(cleared.GetResourceVersion())
	}
	err := w.writer.Apply(ctx, w.kind.Document(object, bundle), client.FieldOwner(trust.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the CA bundle: %w", err)
	}
	return nil
}

// release gives up the ownership of our field in the object and leaves its value as
// it is. object gets the resourceVersion that this leads to.
//
// Server-side apply has no request for that: applying without the field removes it.
// So our entry is taken out of metadata.managedFields, against the
// resourceVersion that was read.
//
// It is done where the bundle is no longer requested, so that whoever takes the
// field over meets no conflict, and after each write where the field lies inside
// a structure that is not valid with it alone. There, ownership would tie the
// owner's hands: an entry of a webhook configuration that they remove by
// server-side apply would stay behind with nothing but our caBundle in it, and
// the API server would refuse their apply as invalid.
func (w fieldWriter) release(ctx context.Context, object client.Object) error {
	gvk, err := apiutil.GVKForObject(w.kind.Object, w.scheme)
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	if err := w.live.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return err
	}
	before := live.DeepCopy()
	live.ManagedFields = slices.DeleteFunc(live.ManagedFields, trust.IsOwnEntry)
	if len(live.ManagedFields) == len(before.ManagedFields) {
		return nil // already released, and not yet in the cache
	}
	if len(live.ManagedFields) == 0 {
		live.ManagedFields = []metav1.ManagedFieldsEntry{{}} // the API server ignores an empty list
	}
	if err := w.writer.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(trust.FieldManager)); err != nil {
		return err
	}
	object.SetResourceVersion(live.ResourceVersion)
	return nil
}
