package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// stored is what an API server holds: the CA Secret, or nothing.
type stored struct {
	client.Reader
	secret map[string][]byte
}

func (s *stored) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if secret, ok := object.(*corev1.Secret); ok && s.secret != nil && key.Name == "servingcert-ca" {
		secret.Name, secret.Data = key.Name, s.secret
		return nil
	}
	return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
}

// Two signers start at once. This one reads that there is no CA; before it looks
// for managed Secrets, the other has made the CA and issued the first.
func TestEvidenceThatCameBetweenTheReadsIsNoLoss(t *testing.T) {
	h := newHarness(t)
	server := &stored{}
	h.reader = server
	h.cfg.ManagedExist = func(context.Context) (bool, error) {
		server.secret = secretData(t, first(t))
		return true, nil
	}
	f, err := h.gather(h.ctx)
	require.NoError(t, err)
	assert.Empty(t, ca.Decide(f.Situation).Problem.Reason)
}

func TestALossIsReadTwice(t *testing.T) {
	h := newHarness(t)
	h.reader = &stored{}
	h.cfg.ManagedExist = func(context.Context) (bool, error) { return true, nil }
	f, err := h.gather(h.ctx)
	require.NoError(t, err)
	assert.Equal(t, api.CALost, ca.Decide(f.Situation).Problem.Reason)
}

// Each reconcile may follow the one before at once: who is asked about the remote
// CA and the certificates in use is not asked as often.
func TestAnswersAreUsedAgain(t *testing.T) {
	asked, away := 0, errors.New("away")
	remote := remoteCA{ask: func(context.Context, time.Time) (ca.Candidate, error) { asked++; return ca.Candidate{}, away }}
	get := func(now time.Time) error { _, err := remote.get(t.Context(), now, api.RotateRequest{}); return err }
	assert.Equal(t, away, get(start))
	away = nil
	assert.NoError(t, get(start), "a failure is tried again at once")
	assert.NoError(t, get(start.Add(askEvery-1)))
	assert.Equal(t, 2, asked)
	assert.NoError(t, get(start.Add(askEvery)))
	assert.Equal(t, 3, asked)

	// A person who distrusts the CA has replaced it: what was answered before is of no use.
	var since time.Time
	remote = remoteCA{ask: func(_ context.Context, at time.Time) (ca.Candidate, error) {
		asked, since = asked+1, at
		return ca.Candidate{}, nil
	}}
	distrust := func(reason string, now time.Time) {
		_, err := remote.get(t.Context(), now, api.RotateRequest{Mode: api.RotateDistrust, Reason: reason})
		require.NoError(t, err)
	}
	asked = 0
	require.NoError(t, get(start))
	assert.Zero(t, since)
	distrust("stolen", start.Add(time.Second))
	distrust("stolen", start.Add(2*time.Second))
	assert.Equal(t, 2, asked)
	assert.Equal(t, start.Add(time.Second), since)
	distrust("stolen again", start.Add(3*time.Second))
	assert.Equal(t, 3, asked)
	distrust("stolen again", start.Add(-time.Hour))
	assert.Equal(t, start.Add(-time.Hour), since, "the clock was set back")
	require.NoError(t, get(start.Add(time.Hour)))
	assert.Zero(t, since, "it was answered")

	var seen map[string]int
	leaves := leafCount{count: func() map[string]int { return seen }}
	assert.Nil(t, leaves.get(start))
	seen = map[string]int{"one": 1}
	assert.Equal(t, seen, leaves.get(start), "what was not seen is looked for at once")
	before := seen
	seen = map[string]int{}
	assert.Equal(t, before, leaves.get(start.Add(countEvery-1)))
	assert.Equal(t, seen, leaves.get(start.Add(countEvery)))
}
