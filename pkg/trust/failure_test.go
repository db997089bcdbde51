package trust

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is gone, or changed meanwhile, is no failure: no error, no backoff.
func TestOutcome(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	d := decision{after: time.Hour}
	tests := []struct {
		name   string
		failed error
		after  time.Duration
		fails  bool
	}{
		{"written", nil, time.Hour, false},
		{"gone", apierrors.NewNotFound(configMaps, "x"), minInterval, false},
		{"changed", apierrors.NewConflict(configMaps, "x", errors.New("no")), minInterval, false},
		{"no rights", apierrors.NewForbidden(configMaps, "x", errors.New("no")), 0, true},
		{"no answer", io.ErrUnexpectedEOF, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var reason Reason
			if tt.failed != nil {
				reason = classify(tt.failed).Reason
			}
			got, err := outcome(d, tt.failed, reason)
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
		state  State
		reason Reason
		gone   bool
	}{
		{"no rights", apierrors.NewForbidden(configMaps, "x", errors.New("no")), StateRefuses, ReasonForbidden, false},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{}, "x", nil), StateRefuses, ReasonInvalid, false},
		{"bad request", apierrors.NewBadRequest("no"), StateRefuses, ReasonInvalid, false},
		{"changed", apierrors.NewConflict(configMaps, "x", errors.New("no")), StatePending, ReasonConflict, false},
		{"slow down", apierrors.NewTooManyRequests("no", 1), StatePending, ReasonTooManyRequests, false},
		{"server's fault", apierrors.NewInternalError(errors.New("no")), StatePending, ReasonUnavailable, false},
		{"etcd is slow", apierrors.NewServerTimeout(configMaps, "patch", 1), StatePending, ReasonUnavailable, false},
		{"no answer", io.ErrUnexpectedEOF, StatePending, ReasonUnavailable, false},
		{"no such method", apierrors.NewMethodNotSupported(configMaps, "patch"), StateRefuses, ReasonOther, false},
		{"object is gone", apierrors.NewNotFound(configMaps, "x"), StateRefuses, ReasonOther, true},
		{"namespace goes", terminating, StateRefuses, ReasonForbidden, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := fmt.Errorf("apply the CA bundle: %w", tt.err)
			got := classify(err)
			assert.Equal(t, Judgement{tt.state, tt.reason, err.Error()}, got)
			assert.Equal(t, tt.gone, isGone(err))
		})
	}
}
