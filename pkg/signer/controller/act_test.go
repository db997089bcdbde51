package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// While no server of a remote CA works, an attempt generates no key, reports the error of the last
// one, and uses no tokens.
func TestNoKeyIsGeneratedForAnUnavailableCA(t *testing.T) {
	away := &issue.RefusedError{Err: assert.AnError}
	ca := testCA(t)
	key := requestOf("shop", "web-tls").NamespacedName
	c := Controller{pace: ratelimit.New(ratelimit.Rates{Secret: limit.Limit{Burst: 1, Interval: time.Hour}})}
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

// A pending request to a CA uses one token, however often it is read, and is not reported
// in its first seconds.
func TestACAThatTakesLong(t *testing.T) {
	here := testCA(t)
	remote := *here
	remote.Key = nil
	key := requestOf("shop", "web-tls").NamespacedName
	c := Controller{pace: ratelimit.New(ratelimit.Rates{Secret: limit.Limit{Burst: 1, Interval: time.Hour}})}
	answer := error(&issue.PendingError{Since: epoch, Again: 3 * time.Second})
	c.config = Config{
		Clock: func() time.Time { return epoch },
		Issue: func(context.Context, types.NamespacedName, *pki.Authority, api.Wanted, time.Time) (issue.Issued, error) {
			return issue.Issued{}, answer
		},
	}
	d := signer.Decision{Action: signer.Create}
	d.Wanted = wantedBy(service("web"))
	s := signer.Situation{Now: epoch.Add(9 * time.Second), Key: key, Authority: &remote}
	for range 3 {
		assert.Equal(t, epoch, c.pace.Reserve(key, 0, epoch).Secret)
		result, err := c.act(t.Context(), s, d) // which would need a client to write
		assert.NoError(t, err)
		assert.Equal(t, 3*time.Second, result.RequeueAfter)
	}
	answer = assert.AnError
	assert.ErrorIs(t, c.issue(t.Context(), s, d).Err, assert.AnError)
	assert.Zero(t, c.pace.Slot(key))

	s.Authority = here
	c.config.Sign = func(context.Context, *pki.Authority, issue.SigningRequest) (*x509.Certificate, error) {
		return nil, context.Canceled
	}
	assert.ErrorIs(t, c.issue(t.Context(), s, d).Err, context.Canceled, "a CA whose key is here signs itself")
}

func TestReasonOfFailures(t *testing.T) {
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

// A machine that slept for 40 days has timers that are 40 days late.
func TestNoTimerIsLongerThanAMachineMaySleep(t *testing.T) {
	var c Controller
	after := func(next time.Time) time.Duration {
		return c.requeueAfter(signer.Situation{Now: epoch}, signer.StatusUpdate{NextAt: next})
	}
	assert.InDelta(t, 75*time.Minute, after(epoch.Add(26*24*time.Hour)), float64(15*time.Minute))
	assert.Equal(t, 5*time.Minute, after(epoch.Add(5*time.Minute)))
	assert.Equal(t, time.Millisecond, after(epoch.Add(-time.Minute)))
	assert.Zero(t, after(time.Time{}), "nothing to do without a change")
}

// The API server answers a patch with Conflict after a few attempts of its own. No event leads to
// another reconcile then, and the condition would have the previous leaf until the next renewal.
func TestAStatusThatMetAConflictIsWrittenAgain(t *testing.T) {
	services, status := schema.GroupResource{Resource: "services"}, error(nil)
	c := Controller{
		config: Config{Clock: func() time.Time { return epoch }},
		client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return status
			},
		}),
	}
	write := func(err error) (bool, error) {
		status = err
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		return c.writeStatus(t.Context(), signer.ServiceStatus{Service: svc, Ready: state.Say(metav1.Condition{Type: api.ConditionReady}, state.Ready{Secret: "web-tls"})})
	}
	wrote, err := write(apierrors.NewConflict(services, "web", assert.AnError))
	assert.ErrorContains(t, err, "status of Service shop/web")
	assert.False(t, wrote)
	wrote, err = write(apierrors.NewNotFound(services, "web"))
	assert.NoError(t, err, "its deletion is an event of its own")
	assert.False(t, wrote)
}
