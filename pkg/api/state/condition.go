// Package state is the data that servingcert's processes exchange in the status of a Service.
//
// Each condition of the signer and the rotator has a second condition whose message is JSON:
// servingcert.dev/ReadyState for servingcert.dev/Ready, and so on. People read the first, whose
// message is prose that no process depends on. Processes read the second. Both are written by one
// patch, with the same permission, and the admission policies protect both.
//
// A state is versioned. Fields may be added to a version, since readers ignore unknown fields. A
// change of a field's meaning needs a new version, which older processes do not read.
package state

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// version is the version of all states.
const version = 1

// reason is the reason of conditions that hold a state. Their status is always True.
const reason = "State"

// envelope is the message of a condition that holds a state.
type envelope[S State] struct {
	Version int `json:"v"`
	State   S   `json:"state"`
}

// A State is the data of one condition for other processes.
type State interface{ Ready | Serving | Guarded }

// A Condition is what one controller reports about a Service: in prose for people, and as data for
// other processes.
type Condition struct {
	metav1.Condition
	State string // JSON
}

// Say returns the condition with the state, which must match the condition's type.
func Say[S State](c metav1.Condition, s S) *Condition {
	text, err := json.Marshal(envelope[S]{version, s})
	if err != nil {
		panic(err) // texts, numbers and times always marshal
	}
	return &Condition{c, string(text)}
}

// Of returns the Service's condition of the type with its state, or nil if there is none.
func Of(svc *corev1.Service, conditionType string) *Condition {
	c := api.Condition(svc, conditionType)
	if c == nil {
		return nil
	}
	said := &Condition{Condition: *c}
	if s := api.Condition(svc, conditionType+api.StateSuffix); s != nil {
		said.State = s.Message
	}
	return said
}

// Both returns the two conditions of a Service's status: none for nil, and only the first for a
// condition without a state.
func (c *Condition) Both() []metav1.Condition {
	switch {
	case c == nil:
		return nil
	case c.State == "":
		return []metav1.Condition{c.Condition}
	}
	return []metav1.Condition{c.Condition, *c.state()}
}

func (c *Condition) state() *metav1.Condition {
	if c == nil || c.State == "" {
		return nil
	}
	return &metav1.Condition{
		Type: c.Type + api.StateSuffix, Status: metav1.ConditionTrue, Reason: reason, Message: c.State, LastTransitionTime: c.LastTransitionTime,
	}
}

func (c *Condition) words() *metav1.Condition {
	if c == nil {
		return nil
	}
	return &c.Condition
}

// Same reports whether two conditions are equal, ignoring their transition times. Each may be nil.
func Same(a, b *Condition) bool {
	return sameCondition(a.words(), b.words()) && sameCondition(a.state(), b.state())
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// Patch returns a strategic merge patch of the Service's status, which sets its condition of the
// type to want, or removes it if want is nil, and sets annotations in the same write: the API
// server accepts them with the status. A nil value removes an annotation. Patch returns nil if
// there is nothing to write.
//
// Conditions of other types stay, since the list merges by type. The UID makes the patch fail on a
// Service that was recreated in the meantime.
func Patch(svc *corev1.Service, conditionType string, want *Condition, annotations map[string]any, now time.Time) ([]byte, error) {
	patch := statusPatch{Metadata: patchedMetadata{svc.UID, annotations}}
	var entries []*patchedCondition
	for _, wanted := range []struct {
		conditionType string
		condition     *metav1.Condition
	}{{conditionType, want.words()}, {conditionType + api.StateSuffix, want.state()}} {
		if e := entry(wanted.conditionType, api.Condition(svc, wanted.conditionType), wanted.condition, now); e != nil {
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		patch.Status = &patchedStatus{entries}
	} else if len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(patch)
}

// statusPatch is a strategic merge patch as Patch returns it.
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

// entry returns the change of a condition, or nil.
func entry(conditionType string, have, want *metav1.Condition, now time.Time) *patchedCondition {
	switch {
	case sameCondition(have, want):
		return nil
	case want == nil:
		return &patchedCondition{Type: conditionType, Delete: "delete"}
	}
	since := metav1.NewTime(now)
	if have != nil && have.Status == want.Status {
		since = have.LastTransitionTime
	}
	return &patchedCondition{Type: conditionType, patchedState: &patchedState{want.Status, want.Reason, want.Message, since}}
}

// read returns the state of the Service's condition of the type; empty if there is none, or if it
// does not have this version's form.
func read[S State](svc *corev1.Service, conditionType string) (state S) {
	var e envelope[S]
	c := api.Condition(svc, conditionType+api.StateSuffix)
	if c == nil || len(c.Message) > api.MaxMessage || json.Unmarshal([]byte(c.Message), &e) != nil || e.Version != version {
		return state
	}
	return e.State
}
