package process

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// held is a Lease that can be written.
type held struct {
	resourcelock.Interface
	writes *int
}

func (held) Identity() string { return "me" }

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

// TestAMissingLeaseIsCreated and taken, unless another replica has taken it meanwhile.
func TestAMissingLeaseIsCreated(t *testing.T) {
	client := fake.NewClientset()
	lockOf := func(identity string) *guardedLock {
		lease, err := resourcelock.New(resourcelock.LeasesResourceLock, "servingcert-system", "servingcert-signer",
			nil, client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
		require.NoError(t, err)
		return &guardedLock{Interface: lease, leases: client.CoordinationV1(), namespace: "servingcert-system", name: "servingcert-signer"}
	}
	create := func(l *guardedLock) error {
		return l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15})
	}
	isDeleted := func() {
		require.NoError(t, client.CoordinationV1().Leases("servingcert-system").Delete(t.Context(), "servingcert-signer", metav1.DeleteOptions{}))
	}
	first, second := lockOf("first"), lockOf("second")
	require.NoError(t, create(first))
	assert.True(t, first.holds.Load())
	require.ErrorContains(t, create(second), "held by first")
	assert.False(t, second.holds.Load())
	found, _, err := second.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "first", found.HolderIdentity)

	isDeleted()
	require.ErrorContains(t, create(second), "was deleted while another replica held it")
	require.NoError(t, create(first), "which may still lead")
	isDeleted()
	second.others = time.Now() // the other's Lease is over
	require.NoError(t, create(second))
}
