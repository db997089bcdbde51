package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
)

// serviceCA are the Deployments that OpenShift's service-ca consists of: the
// controller, and the operator that would bring it back.
var serviceCA = []types.NamespacedName{
	{Namespace: api.OpenShiftNamespace, Name: api.OpenShiftDeployment},
	{Namespace: api.OpenShiftOperatorNamespace, Name: api.OpenShiftOperatorDeployment},
}

// errServiceCA is wrapped by the error of RefuseBesideServiceCA if service-ca runs, and
// not if that cannot be determined.
var errServiceCA = errors.New("OpenShift's service-ca runs in this cluster")

// NewManager returns a manager. For a process with --openshift-compat it returns an
// error if service-ca runs, and a replica that waits does not begin to lead where
// service-ca has been started meanwhile: the manager's Start then returns that error,
// and nothing was written.
func NewManager(ctx context.Context, config *rest.Config, options manager.Options, openShift bool) (manager.Manager, error) {
	guard := &guardedLock{}
	if options.LeaderElection {
		options.LeaderElectionResourceLockInterface = guard
	}
	mgr, err := manager.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	if openShift {
		guard.check = func(ctx context.Context) error { return RefuseBesideServiceCA(ctx, mgr.GetAPIReader()) }
		if err := guard.check(ctx); err != nil {
			return mgr, err
		}
	}
	if !options.LeaderElection {
		return mgr, nil
	}
	guard.Interface, err = leaderelection.NewResourceLock(config, mgr, leaderelection.Options{
		LeaderElection:          true,
		LeaderElectionID:        options.LeaderElectionID,
		LeaderElectionNamespace: options.LeaderElectionNamespace,
		RenewDeadline:           renewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &guardedManager{Manager: mgr, guard: guard}, nil
}

// renewDeadline is controller-runtime's default, half of which is the timeout of a
// request for the Lease.
const renewDeadline = 10 * time.Second

// guardedManager stops when its replica must not lead.
type guardedManager struct {
	manager.Manager
	guard *guardedLock
}

// Start returns what forbids this replica to lead, or what the manager's Start returns.
func (m *guardedManager) Start(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m.guard.stop = stop
	err := m.Manager.Start(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errServiceCA) {
		return cause
	}
	return err
}

// guardedLock is the Lease of a process, which may have to ask whether it must not lead,
// beside service-ca. It asks when the Lease is taken, not when it is renewed: a leader would
// have to be asked every two seconds. The Lease is written by one goroutine of the leader
// election.
type guardedLock struct {
	resourcelock.Interface
	check func(context.Context) error // nil: it may lead
	stop  context.CancelCauseFunc
	holds atomic.Bool
}

// Create takes a Lease that does not exist. The ServiceAccounts of the manifest may not
// create one: the leader election logs the error, which says what to do, and tries again.
func (l *guardedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.write(ctx, record, l.Interface.Create)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("Lease %s does not exist: it is part of the manifest, apply that again: %w", l.Describe(), err)
	}
	return err
}

// Update takes, renews or releases the Lease.
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// write returns an error, and writes nothing, if the Lease would be taken beside
// service-ca, or if that cannot be determined: then it is tried again.
func (l *guardedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	holds := record.HolderIdentity == l.Identity()
	if holds && !l.holds.Load() && l.check != nil {
		if err := l.check(ctx); err != nil {
			if errors.Is(err, errServiceCA) {
				l.stop(err)
			}
			return err
		}
	}
	err := write(ctx, record)
	if err == nil {
		l.holds.Store(holds)
	}
	return err
}

// RefuseBesideServiceCA returns an error if service-ca runs in the cluster, or if
// that cannot be told. A process with --openshift-compat calls it before it starts
// anything, and before it leads: both would write the same Secrets and fields, each
// its own CA's, without end. A Deployment that is scaled to zero does not run.
//
// r must read the API server, not a cache. It needs the right to get these
// Deployments.
func RefuseBesideServiceCA(ctx context.Context, r client.Reader) error {
	for _, key := range serviceCA {
		runs, err := isScaledUp(ctx, r, key)
		if err != nil {
			return fmt.Errorf("--openshift-compat: cannot determine whether OpenShift's service-ca runs in this cluster: read Deployment %s: %w", key, err)
		}
		if runs {
			return fmt.Errorf("--openshift-compat: %w (Deployment %s), and both would write every Secret and CA bundle: remove the flag, or remove service-ca first", errServiceCA, key)
		}
	}
	return nil
}

func isScaledUp(ctx context.Context, r client.Reader, key types.NamespacedName) (bool, error) {
	deployment := &unstructured.Unstructured{} // a process need not know the type otherwise
	deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := r.Get(ctx, key, deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	replicas, set, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return !set || replicas > 0, err
}
