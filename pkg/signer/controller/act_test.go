package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/pace"
)

// While no server of a remote CA works, an attempt costs no key: it says what the last
// one said, and takes nothing of the limits.
func TestNoKeyIsDrawnForACAThatIsAway(t *testing.T) {
	away := &issue.RefusedError{Err: assert.AnError}
	ca := testCA(t)
	key := requestOf("shop", "web-tls").NamespacedName
	c := Controller{pace: pace.New(pace.Rates{Secret: limit.Limit{Burst: 1, Interval: time.Hour}})}
	c.config = Config{
		Clock:     func() time.Time { return epoch },
		Available: func(*pki.Authority) error { return away },
		Sign: func(context.Context, *pki.Authority, issue.SigningRequest) (*x509.Certificate, error) {
			assert.Fail(t, "a key was drawn")
			return nil, away
		},
	}
	s := signer.Situation{Now: epoch, Key: key, Authority: ca}
	var d signer.Decision
	d.Wanted = wantedBy(service("web"))
	for range 3 {
		c.pace.Reserve(key, 0, epoch)
		outcome := c.issue(t.Context(), s, d)
		assert.EqualError(t, outcome.Err, "sign: "+away.Error())
		assert.Equal(t, signer.Reason(issue.ReasonRefused), signer.ReasonOf(outcome.Err, ""))
		assert.Equal(t, epoch, c.pace.Slot(key).Secret)
	}
	c.config.Available = func(*pki.Authority) error { return nil }
	c.config.Sign = func(context.Context, *pki.Authority, issue.SigningRequest) (*x509.Certificate, error) {
		return nil, away
	}
	assert.EqualError(t, c.issue(t.Context(), s, d).Err, "sign: "+away.Error(), "the same as with a key")
	assert.Zero(t, c.pace.Slot(key))
}

func TestFailureTellsWhoseItIs(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "web-tls", assert.AnError)
	for want, err := range map[signer.Reason]error{
		signer.Reason(issue.ReasonRefused): fmt.Errorf("x: %w", &issue.RefusedError{Err: assert.AnError}),
		signer.ReasonWriteRefused:          writeError{fmt.Errorf("create Secret: %w", forbidden)},
		signer.ReasonWriteFailed:           writeError{fmt.Errorf("create Secret: %w", assert.AnError)},
		signer.ReasonSignFailed:            fmt.Errorf("sign: %w", assert.AnError),
	} {
		assert.Equal(t, want, signer.ReasonOf(err, signer.ReasonSignFailed))
	}
}
