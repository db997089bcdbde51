package process

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// missing is a Lease that is not there and may not be made.
type missing struct{ resourcelock.Interface }

func (missing) Describe() string { return "servingcert-system/servingcert-signer" }

func (missing) Identity() string { return "me" }

func (missing) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil)
}

func TestAMissingLeaseIsTheManifests(t *testing.T) {
	lock := &guardedLock{Interface: missing{}}
	err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"})
	require.ErrorContains(t, err, "Lease servingcert-system/servingcert-signer does not exist: it is part of the manifest, apply that again: ")
	assert.True(t, apierrors.IsForbidden(err))
	assert.False(t, lock.holds.Load())
}
