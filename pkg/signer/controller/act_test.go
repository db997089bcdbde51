package controller

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/signer"
)

func TestFailureTellsWhoseItIs(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "web-tls", assert.AnError)
	for want, err := range map[signer.Reason]error{
		signer.ReasonRefused:      fmt.Errorf("x: %w", &signer.RefusedError{Err: assert.AnError}),
		signer.ReasonWriteRefused: writeError{fmt.Errorf("create Secret: %w", forbidden)},
		signer.ReasonWriteFailed:  writeError{fmt.Errorf("create Secret: %w", assert.AnError)},
		signer.ReasonSignFailed:   fmt.Errorf("sign: %w", assert.AnError),
	} {
		assert.Equal(t, want, signer.ReasonOf(err, signer.ReasonSignFailed))
	}
}
