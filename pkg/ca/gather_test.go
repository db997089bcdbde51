package ca

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	api := &stored{}
	h.reader = api
	h.cfg.ManagedExist = func(context.Context) (bool, error) {
		api.secret = secretData(t, first(t))
		return true, nil
	}
	f, err := h.gather(h.ctx)
	require.NoError(t, err)
	assert.Empty(t, Decide(f.Observed).Reason)
}

func TestALossIsReadTwice(t *testing.T) {
	h := newHarness(t)
	h.reader = &stored{}
	h.cfg.ManagedExist = func(context.Context) (bool, error) { return true, nil }
	f, err := h.gather(h.ctx)
	require.NoError(t, err)
	assert.Equal(t, ReasonLost, Decide(f.Observed).Reason)
}
