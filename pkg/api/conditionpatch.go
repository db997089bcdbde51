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
	patch := statusPatch{Metadata: patchedMetadata{uid, annotations}}
	if entry := conditionEntry(conditionType, have, want, now); entry != nil {
		patch.Status = &patchedStatus{[]*patchedCondition{entry}}
	} else if len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// statusPatch is a strategic merge patch as ConditionPatch returns it.
type statusPatch struct {
	Metadata patchedMetadata `json:"metadata"`
	Status   *patchedStatus  `json:"status,omitempty"`
}

type patchedMetadata struct {
	UID         types.UID      `json:"uid"`
	Annotations map[string]any `json:"annotations,omitempty"`
}

type patchedStatus struct {
	Conditions []*patchedCondition `json:"conditions"`
}

// patchedCondition is a condition to write, or to delete.
type patchedCondition struct {
	Type   string `json:"type"`
	Delete string `json:"$patch,omitempty"`
	*patchedState
}

type patchedState struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
	Since   metav1.Time            `json:"lastTransitionTime"`
}

// conditionEntry returns what has to be written of the condition, or nil.
func conditionEntry(conditionType string, have, want *metav1.Condition, now time.Time) *patchedCondition {
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return &patchedCondition{Type: conditionType, Delete: "delete"}
	case have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message:
		return nil
	}
	since := metav1.NewTime(now)
	if have != nil && have.Status == want.Status {
		since = have.LastTransitionTime
	}
	return &patchedCondition{Type: conditionType, patchedState: &patchedState{want.Status, want.Reason, want.Message, since}}
}
