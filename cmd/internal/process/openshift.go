package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/pkg/api"
)

// errServiceCA is wrapped by the error of RefuseBesideServiceCA if service-ca runs, and
// not if that cannot be determined.
var errServiceCA = errors.New("OpenShift's service-ca runs in this cluster")

// EventServiceCARuns is the reason of the Warning on the Lease of a process that ends, as
// service-ca was started while it led.
const EventServiceCARuns = "ServiceCARuns"

// NewManager returns a manager. For a process with --openshift-compat it returns an
// error if service-ca runs, and a replica that waits does not begin to lead where
// service-ca has been started meanwhile: the manager's Start then returns that error,
// and nothing was written. One that leads looks every BesideInterval.
func NewManager(ctx context.Context, config *rest.Config, options manager.Options, openShift bool) (manager.Manager, error) {
	return NewManagerLooking(ctx, config, options, openShift, BesideInterval)
}

// NewManagerLooking is NewManager, but one that leads looks as often as the caller says: tests
// cannot wait as long as processes do.
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
// beside service-ca. It asks when the Lease is taken, and now and then when it is renewed. The
// Lease is written by one goroutine of the leader election.
type guardedLock struct {
	resourcelock.Interface
	check func(context.Context) error // nil: it may lead
	stop  context.CancelCauseFunc
	holds atomic.Bool
	asked time.Time     // last
	every time.Duration // how often who holds the Lease asks

	events          eventsclient.EventsGetter
	namespace, name string // of the Lease
}

// BesideInterval is how often a leader asks whether service-ca runs beside it, and besideTimeout
// how long an answer may take: the Lease is to be renewed within renewDeadline.
const (
	BesideInterval = 15 * time.Second
	besideTimeout  = 2 * time.Second
)

// asks reports whether a process that writes its Lease asks first: who takes it always does,
// who holds it if the last answer is old.
func (l *guardedLock) asks(takes bool, now time.Time) bool {
	return takes && (!l.holds.Load() || now.Sub(l.asked) >= l.every)
}

// obeys reports whether what was found keeps a process from leading. One that leads goes on as
// long as it is not known that service-ca runs.
func obeys(found error, holds bool) bool {
	return found != nil && (!holds || errors.Is(found, errServiceCA))
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

// write returns an error, and writes nothing, if the Lease would be taken or held beside
// service-ca, or taken where that cannot be determined: then it is tried again.
func (l *guardedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	holds := record.HolderIdentity == l.Identity()
	if now := time.Now(); l.check != nil && l.asks(holds, now) {
		l.asked = now
		if err := l.ask(ctx); obeys(err, l.holds.Load()) {
			if errors.Is(err, errServiceCA) {
				err = errors.Join(err, l.report(ctx, err))
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

func (l *guardedLock) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, besideTimeout)
	defer cancel()
	return l.check(ctx)
}

// report writes an event on the Lease, if the process leads. It is there before the process ends.
func (l *guardedLock) report(ctx context.Context, found error) error {
	if !l.holds.Load() || l.events == nil {
		return nil
	}
	_, err := l.events.Events(l.namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: l.name + "-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: l.name,
		ReportingInstance:   api.Shorten(l.Identity(), 128), // which is as long as the API server takes
		Action:              EventServiceCARuns,
		Reason:              EventServiceCARuns,
		Type:                corev1.EventTypeWarning,
		Regarding:           corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: l.namespace, Name: l.name},
		Note:                "this process ends: " + found.Error(),
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}

// RefuseBesideServiceCA returns an error if service-ca runs in the cluster, or if
// that cannot be told. A process with --openshift-compat calls it before it starts
// anything, and before it leads: both would write the same Secrets and fields, each
// its own CA's, without end. A Deployment that is scaled to zero does not run.
//
// r must read the API server, not a cache. It needs the right to get these
// Deployments.
func RefuseBesideServiceCA(ctx context.Context, r client.Reader) error {
	for _, key := range api.ServiceCADeployments() {
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
