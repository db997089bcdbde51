package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestConditionPatch(t *testing.T) {
	then, now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	have := &metav1.Condition{Type: "x", Status: metav1.ConditionTrue, Reason: "Issued", Message: "a", LastTransitionTime: metav1.NewTime(then)}
	with := func(change func(*metav1.Condition)) *metav1.Condition {
		c := *have
		change(&c)
		return &c
	}
	entry := func(status, reason, message string, since time.Time) string {
		return `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"x","status":"` + status + `","reason":"` + reason + `","message":"` + message + `","lastTransitionTime":"` + since.Format(time.RFC3339) + `"}]}}`
	}
	for name, tt := range map[string]struct {
		have, want  *metav1.Condition
		annotations map[string]any
		patch       string
	}{
		"none, and none wanted": {nil, nil, nil, ""},
		"the same":              {have, with(func(c *metav1.Condition) { c.LastTransitionTime = metav1.NewTime(now) }), nil, ""},
		"first":                 {nil, have, nil, entry("True", "Issued", "a", now)},
		"another message":       {have, with(func(c *metav1.Condition) { c.Message = "b" }), nil, entry("True", "Issued", "b", then)},
		"another reason":        {have, with(func(c *metav1.Condition) { c.Reason = "Retained" }), nil, entry("True", "Retained", "a", then)},
		"another status":        {have, with(func(c *metav1.Condition) { c.Status = metav1.ConditionFalse }), nil, entry("False", "Issued", "a", now)},
		"taken away":            {have, nil, nil, `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"x","$patch":"delete"}]}}`},
		"annotations alone":     {have, have, map[string]any{"k": "v", "gone": nil}, `{"metadata":{"uid":"u","annotations":{"k":"v","gone":null}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := api.ConditionPatch("u", "x", tt.have, tt.want, tt.annotations, now)
			require.NoError(t, err)
			if tt.patch == "" {
				assert.Nil(t, got)
				return
			}
			assert.True(t, json.Valid(got))
			assert.JSONEq(t, tt.patch, string(got))
		})
	}
}
