package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/servingcert/servingcert/pkg/api"
)

// guardedLock is the Lease of a process that must not lead while service-ca runs. It checks that when
// the Lease is taken, and periodically when it is renewed. One goroutine of the leader election writes
// the Lease.
type guardedLock struct {
	resourcelock.Interface
	check func(context.Context) error // nil: no check
	stop  context.CancelCauseFunc
	holds atomic.Bool
	asked time.Time     // time of the last check
	every time.Duration // interval of the holder's checks

	events          eventsclient.EventsGetter
	leases          coordinationclient.LeasesGetter
	others          time.Time // when the Lease of another replica, as it was last read, is over; zero if no other held it
	namespace, name string    // of the Lease
}

// BesideInterval is how often a leader checks whether service-ca runs, and besideTimeout the timeout of
// a check: the Lease must be renewed within renewDeadline.
const (
	BesideInterval = 15 * time.Second
	besideTimeout  = 2 * time.Second
)

// asks reports whether a process that writes its Lease checks first: always if it takes the Lease, and
// if the last check is old if it holds it.
func (l *guardedLock) asks(takes bool, now time.Time) bool {
	return takes && (!l.holds.Load() || now.Sub(l.asked) >= l.every)
}

// obeys reports whether the result of a check keeps a process from leading. A leader continues until
// service-ca is known to run.
func obeys(found error, holds bool) bool {
	return found != nil && (!holds || errors.Is(found, errServiceCA))
}

// Create creates the Lease and takes it.
func (l *guardedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.create)
}

// Get reads the Lease, and remembers for how long another replica may lead.
func (l *guardedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return record, raw, err
	}
	l.others = time.Time{}
	if record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.others = time.Now().Add(time.Duration(record.LeaseDurationSeconds) * time.Second)
	}
	return record, raw, nil
}

// create creates the Lease without a holder, by server-side apply: its request has the Lease's name, to
// which RBAC restricts this process. Then it takes the Lease, unless another replica was faster. If a
// Lease was deleted that another replica held, that replica may lead as long as it was valid.
func (l *guardedLock) create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if wait := time.Until(l.others); wait > 0 {
		return fmt.Errorf("Lease %s was deleted while another replica held it, which may lead for %s", l.Describe(), wait.Round(time.Second))
	}
	lease := coordinationapply.Lease(l.name, l.namespace).WithLabels(map[string]string{"app.kubernetes.io/part-of": "servingcert"})
	if _, err := l.leases.Leases(l.namespace).Apply(ctx, lease, metav1.ApplyOptions{FieldManager: l.name}); err != nil {
		return fmt.Errorf("create Lease %s/%s: %w", l.namespace, l.name, err)
	}
	found, _, err := l.Get(ctx)
	if err != nil {
		return err
	}
	if found.HolderIdentity != "" {
		return fmt.Errorf("Lease %s is held by %s, which was faster", l.Describe(), found.HolderIdentity)
	}
	return l.Interface.Update(ctx, record)
}

// Update takes, renews or releases the Lease.
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

// write returns an error and writes nothing if the Lease would be held while service-ca runs, or taken
// while that cannot be determined; the leader election retries.
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

// report creates an event on the Lease if the process leads, before the process ends.
func (l *guardedLock) report(ctx context.Context, found error) error {
	if !l.holds.Load() || l.events == nil {
		return nil
	}
	_, err := l.events.Events(l.namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: l.name + "-"},
		EventTime:           metav1.NowMicro(),
		ReportingController: l.name,
		ReportingInstance:   api.Shorten(l.Identity(), 128), // the API server's limit
		Action:              EventServiceCARuns,
		Reason:              EventServiceCARuns,
		Type:                corev1.EventTypeWarning,
		Regarding:           corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: l.namespace, Name: l.name},
		Note:                "this process stops: " + found.Error(),
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create an event: %w", err)
	}
	return nil
}
