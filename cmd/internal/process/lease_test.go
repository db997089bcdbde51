package process

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// missing is a Lease that does not exist and must not be created.
type missing struct{ resourcelock.Interface }

func (missing) Describe() string { return "servingcert-system/servingcert-signer" }

func (missing) Identity() string { return "me" }

func (missing) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil)
}

// held is a Lease that can be written.
type held struct {
	missing
	writes *int
}

func (l held) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	*l.writes++
	return nil
}

// A process checks before it takes the Lease. The holder checks periodically, and continues until
// service-ca is known to run.
func TestALeaderChecksWhetherServiceCARuns(t *testing.T) {
	var answer error
	var asked, writes int
	var stopped error
	lock := &guardedLock{
		Interface: held{writes: &writes}, stop: func(cause error) { stopped = cause },
		check: func(context.Context) error { asked++; return answer },
		every: time.Hour,
	}
	update := func() error { return lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}) }
	answer = errors.New("no answer")
	require.Error(t, update())
	assert.Equal(t, []int{1, 0}, []int{asked, writes}, "it is not taken while that is unknown")
	answer = fmt.Errorf("found: %w", errServiceCA)
	require.ErrorIs(t, update(), errServiceCA)
	require.ErrorIs(t, stopped, errServiceCA, "a waiting replica stops")
	require.ErrorIs(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}), errServiceCA)
	assert.Equal(t, []int{3, 0}, []int{asked, writes})
	asked, stopped, answer = 1, nil, nil
	require.NoError(t, update())
	require.NoError(t, update())
	assert.Equal(t, []int{2, 2}, []int{asked, writes}, "the last check is recent")
	answer = errors.New("no answer")
	lock.asked = lock.asked.Add(-time.Hour)
	require.NoError(t, update(), "it is held while that is unknown")
	assert.Equal(t, 3, asked)
	require.NoError(t, stopped)
	answer = fmt.Errorf("found: %w", errServiceCA)
	require.NoError(t, update())
	lock.asked = lock.asked.Add(-time.Hour)
	require.ErrorIs(t, update(), errServiceCA)
	require.ErrorIs(t, stopped, errServiceCA)
	assert.Equal(t, 4, writes)
	answer = nil
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}), "it is released")
}

func TestAMissingLeaseNamesTheManifest(t *testing.T) {
	lock := &guardedLock{Interface: missing{}}
	err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})
	require.ErrorContains(t, err, "Lease servingcert-system/servingcert-signer does not exist: apply the manifest that contains it: ")
	assert.True(t, apierrors.IsForbidden(err))
	assert.False(t, lock.holds.Load())
}
