package controller

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// What is gone, or changed meanwhile, is no failure: no error, no backoff.
func TestOutcome(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	const interval = time.Second // the least time between two writes
	d := trust.Decision{Write: trust.WhyUpdate, After: time.Hour}
	tests := []struct {
		name   string
		failed error
		after  time.Duration
		fails  bool
	}{
		{"written", nil, time.Hour, false},
		{"gone", apierrors.NewNotFound(configMaps, "x"), interval, false},
		{"changed", apierrors.NewConflict(configMaps, "x", errors.New("no")), interval, false},
		{"no rights", apierrors.NewForbidden(configMaps, "x", errors.New("no")), 0, true},
		{"no answer", io.ErrUnexpectedEOF, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			attempt := attempted(tt.failed)
			assert.Equal(t, tt.failed == nil, attempt.Wrote)
			got, err := again(trust.Conclude(trust.Situation{}, d, attempt).Retry, tt.failed)
			assert.Equal(t, tt.after, got.RequeueAfter)
			assert.Equal(t, tt.fails, err != nil)
		})
	}
}

func TestClassify(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	terminating := apierrors.NewForbidden(configMaps, "x", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := []struct {
		name   string
		err    error
		state  trust.State
		reason trust.Reason
		gone   bool
	}{
		{"no rights", apierrors.NewForbidden(configMaps, "x", errors.New("no")), trust.StateRefuses, trust.ReasonForbidden, false},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{}, "x", nil), trust.StateRefuses, trust.ReasonInvalid, false},
		{"bad request", apierrors.NewBadRequest("no"), trust.StateRefuses, trust.ReasonInvalid, false},
		{"changed", apierrors.NewConflict(configMaps, "x", errors.New("no")), trust.StatePending, trust.ReasonConflict, false},
		{"slow down", apierrors.NewTooManyRequests("no", 1), trust.StatePending, trust.ReasonTooManyRequests, false},
		{"server's fault", apierrors.NewInternalError(errors.New("no")), trust.StatePending, trust.ReasonUnavailable, false},
		{"etcd is slow", apierrors.NewServerTimeout(configMaps, "patch", 1), trust.StatePending, trust.ReasonUnavailable, false},
		{"no answer", io.ErrUnexpectedEOF, trust.StatePending, trust.ReasonUnavailable, false},
		{"no such method", apierrors.NewMethodNotSupported(configMaps, "patch"), trust.StateRefuses, trust.ReasonOther, false},
		{"object is gone", apierrors.NewNotFound(configMaps, "x"), trust.StateRefuses, trust.ReasonOther, true},
		{"namespace goes", terminating, trust.StateRefuses, trust.ReasonForbidden, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := fmt.Errorf("apply the CA bundle: %w", tt.err)
			got := classify(err)
			assert.Equal(t, trust.Evaluation{State: tt.state, Reason: tt.reason, Message: err.Error()}, got)
			assert.Equal(t, tt.gone, isGone(err))
		})
	}
}

// What admission answers is as long as its author likes, and is remembered for each
// target.
func TestMessagesAreBounded(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New(strings.Repeat("ä", 1<<20)))
	assert.LessOrEqual(t, utf8.RuneCountInString(classify(refused).Message), api.TrustMaxMessage+1)
}

// Advice stands first, as long messages are cut at their end.
func TestAdvice(t *testing.T) {
	configs := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
	forbidden := apierrors.NewForbidden(configs, "shop", errors.New("no rights"))
	for _, tt := range []struct {
		name   string
		err    error
		advice string
		want   string
	}{
		{"no rights", forbidden, "do this", "do this: " + forbidden.Error()},
		{"no rights, no advice", forbidden, "", forbidden.Error()},
		{"another reason", io.ErrUnexpectedEOF, "do this", io.ErrUnexpectedEOF.Error()},
		{"written", nil, "do this", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, advised(attempted(tt.err), tt.advice).Failure.Message)
		})
	}
}
