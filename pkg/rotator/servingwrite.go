package rotator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// writtenFor bounds how long a write is believed that the cache never showed.
const writtenFor = 30 * time.Second

// wroteServing is a condition that this process wrote, nil if it took it away, and
// the version of the Service that has it. Until the cache has seen that, the
// condition would be written a second time.
type wroteServing struct {
	condition *metav1.Condition
	version   uint64
	until     time.Time
}

// asWritten returns the Service with the condition that this process wrote, if
// the cache is behind.
func (f *followed) asWritten(svc *corev1.Service) *corev1.Service {
	w, ok := f.wrote[svc.UID]
	if !ok || version(svc.ResourceVersion) >= w.version {
		return svc
	}
	out := *svc
	out.Status.Conditions = slices.DeleteFunc(slices.Clone(svc.Status.Conditions), func(c metav1.Condition) bool { return c.Type == api.ConditionServing })
	if w.condition != nil {
		out.Status.Conditions = append(out.Status.Conditions, *w.condition)
	}
	return &out
}

// version returns a resource version as the number that it is (KEP-5504).
func version(resourceVersion string) uint64 {
	v, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// setServing writes the condition if the Service has another, and returns what it
// wrote, or nil.
func (c *consumers) setServing(ctx context.Context, change servingChange) (*wroteServing, error) {
	svc, now := change.service, c.cfg.Now()
	patch, err := servingPatch(svc, change.want, now)
	if err != nil || patch == nil {
		return nil, err
	}
	patched := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	err = c.writer.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, nil // deleted, or made again: an event of its own
	case err != nil:
		return nil, fmt.Errorf("status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	return &wroteServing{api.Condition(patched, api.ConditionServing), version(patched.ResourceVersion), now.Add(writtenFor)}, nil
}

// servingPatch returns a strategic merge patch of a Service's status that gives it
// the condition, or takes it away if want is nil; none if it says that already.
// Other conditions stay: the list merges by type. The UID makes the patch fail on a
// Service that was made again meanwhile.
func servingPatch(svc *corev1.Service, want *metav1.Condition, now time.Time) ([]byte, error) {
	have := api.Condition(svc, api.ConditionServing)
	var entry map[string]any
	switch {
	case want == nil && have == nil:
		return nil, nil
	case want == nil:
		entry = map[string]any{"type": api.ConditionServing, "$patch": "delete"}
	case have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message:
		return nil, nil
	default:
		since := metav1.NewTime(now)
		if have != nil && have.Status == want.Status {
			since = have.LastTransitionTime
		}
		entry = map[string]any{"type": want.Type, "status": want.Status, "reason": want.Reason, "message": want.Message, "lastTransitionTime": since}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": svc.UID},
		"status":   map[string]any{"conditions": []any{entry}},
	})
}
