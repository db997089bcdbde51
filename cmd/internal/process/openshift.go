package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
)

// errServiceCA is wrapped by the error of RefuseBesideServiceCA if service-ca runs, but not if that
// cannot be determined.
var errServiceCA = errors.New("OpenShift's service-ca runs in this cluster")

// EventServiceCARuns is the reason of the Warning on the Lease of a process that stops because
// service-ca was started while it led.
const EventServiceCARuns = "ServiceCARuns"

// NewManager returns a manager. For a process with --openshift-compat, it returns an error if service-ca
// runs. If service-ca is started later, a waiting replica does not take the lead and writes nothing: the
// manager's Start returns the error. A leader checks every BesideInterval.
func NewManager(ctx context.Context, config *rest.Config, options manager.Options, openShift bool) (manager.Manager, error) {
	return NewManagerLooking(ctx, config, options, openShift, BesideInterval)
}

// NewManagerLooking is NewManager with the given interval between a leader's checks, for tests.
func NewManagerLooking(ctx context.Context, config *rest.Config, options manager.Options, openShift bool, every time.Duration) (manager.Manager, error) {
	guard := &guardedLock{every: every}
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
	if guard.events, err = eventsclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	limited := rest.CopyConfig(config)
	limited.Timeout = renewDeadline / 2
	if guard.leases, err = coordinationclient.NewForConfig(limited); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	guard.namespace, guard.name = options.LeaderElectionNamespace, options.LeaderElectionID
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

// renewDeadline is controller-runtime's default. A request for the Lease times out after half of it.
const renewDeadline = 10 * time.Second

// guardedManager stops if its replica must not lead.
type guardedManager struct {
	manager.Manager
	guard *guardedLock
}

// Start returns the reason why this replica must not lead, or what the manager's Start returns.
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

// RefuseBesideServiceCA returns an error if service-ca runs in the cluster, or if that cannot be
// determined. A process with --openshift-compat calls it before it starts and before it leads:
// otherwise both would overwrite each other's Secrets and fields endlessly. A Deployment with zero
// replicas does not run.
//
// r must read the API server, not a cache, and needs permission to get these Deployments.
func RefuseBesideServiceCA(ctx context.Context, r client.Reader) error {
	for _, key := range api.ServiceCADeployments() {
		runs, err := isScaledUp(ctx, r, key)
		if err != nil {
			return fmt.Errorf("--openshift-compat: cannot determine whether OpenShift's service-ca runs in this cluster: read Deployment %s: %w", key, err)
		}
		if runs {
			return fmt.Errorf("--openshift-compat: %w (Deployment %s), and both would write every Secret and CA bundle: remove the flag or service-ca", errServiceCA, key)
		}
	}
	return nil
}

func isScaledUp(ctx context.Context, r client.Reader, key types.NamespacedName) (bool, error) {
	deployment := &unstructured.Unstructured{} // the schemes lack the type
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
