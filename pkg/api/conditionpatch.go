package api

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConditionPatch returns a strategic merge patch of the status of the Service with
// that UID, which changes its condition of the type from have to want, and sets
// annotations in the same write: the API server takes them with the status. A nil
// value of an annotation removes it. have and want are nil for no condition. It
// returns nil if nothing has to be written.
//
// Conditions of other types stay, as the list merges by type. The UID makes the
// patch fail on a Service that was made again in the meantime.
func ConditionPatch(uid types.UID, conditionType string, have, want *metav1.Condition, annotations map[string]any, now time.Time) ([]byte, error) {
	metadata := map[string]any{"uid": uid}
	patch := map[string]any{"metadata": metadata}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if entry := conditionEntry(conditionType, have, want, now); entry != nil {
		patch["status"] = map[string]any{"conditions": []any{entry}}
	} else if len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// conditionEntry returns what has to be written of the condition, or nil.
func conditionEntry(conditionType string, have, want *metav1.Condition, now time.Time) map[string]any {
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return map[string]any{"type": conditionType, "$patch": "delete"}
	case have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message:
		return nil
	}
	since := metav1.NewTime(now)
	if have != nil && have.Status == want.Status {
		since = have.LastTransitionTime
	}
	return map[string]any{
		"type":               conditionType,
		"status":             want.Status,
		"reason":             want.Reason,
		"message":            want.Message,
		"lastTransitionTime": since,
	}
}
