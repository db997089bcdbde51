package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Permanent answers of the API server are reported; after others the restart is retried.
func TestIsRefusal(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":             {nil, false},
		"no answer":        {errors.New("connection refused"), false},
		"forbidden":        {apierrors.NewForbidden(deployments, "web", errors.New("by policy")), true},
		"invalid":          {apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil), true},
		"bad request":      {apierrors.NewBadRequest("what?"), true},
		"too many":         {apierrors.NewTooManyRequests("wait", 1), false},
		"a broken webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"unavailable":      {apierrors.NewServiceUnavailable("starting"), false},
		"wrapped":          {fmt.Errorf("restart: %w", apierrors.NewForbidden(deployments, "web", nil)), true},
	} {
		assert.Equal(t, tt.want, isRefusal(tt.err), name)
	}
}
