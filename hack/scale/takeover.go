package main

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// takeover kills the leader of two signers. The Service that is made in that moment has to
// wait for the other.
func (r *run) takeover(ctx context.Context) error {
	const part = "Takeover"
	leader, err := r.runAs(ctx, userA)
	if err != nil {
		return err
	}
	defer leader.Kill()
	if err := leader.WaitReconciled(ctx, r.n); err != nil {
		return err
	}
	standby, err := r.runAs(ctx, userB)
	if err != nil {
		return err
	}
	defer standby.Kill()
	if err := settled(ctx, standby); err != nil {
		return err
	}
	waiting, err := r.requestsOf(userB, 0)
	if err != nil {
		return err
	}
	if err := r.setStandby(part, standby, waiting); err != nil {
		return err
	}
	led, worked, killed, err := r.replaceLeader(ctx, leader)
	if err != nil {
		return err
	}
	if err := standby.WaitReconciled(ctx, r.n+1); err != nil {
		return err
	}
	r.set(part, "from the leader's kill -9 to the other's Lease", "s", led.Sub(killed).Seconds())
	r.set(part, "from its Lease to its first certificate", "s", worked.Sub(led).Seconds())
	r.set(part, "from its Lease until every certificate was looked at", "s", standby.Reached.Sub(led).Seconds())
	after, err := r.requestsOf(userB, waiting.events)
	if err != nil {
		return err
	}
	r.setRequests(part, after)
	peak, err := process.PeakRSS(standby.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS afterwards", "MiB", mib(peak))
	return standby.Stop()
}

// replaceLeader kills the leader and creates a Service, and returns when another had the Lease,
// when the Service had its certificate, and when the leader was killed.
func (r *run) replaceLeader(ctx context.Context, leader *measure.Process) (led, worked, killed time.Time, err error) {
	held, holder, err := r.watchLease(ctx)
	if err != nil {
		return led, worked, killed, err
	}
	defer held.Stop()
	secrets, err := r.Client.CoreV1().Secrets(namespaceOf(0)).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", measure.Name(r.n)+"-tls").String()})
	if err != nil {
		return led, worked, killed, err
	}
	defer secrets.Stop()
	killed = time.Now()
	leader.Kill()
	if err := r.MakeService(ctx, namespaceOf(0), r.n, true); err != nil {
		return led, worked, killed, err
	}
	if led, err = nextHolder(ctx, held, holder); err != nil {
		return led, worked, killed, err
	}
	err = next(ctx, secrets)
	return led, time.Now(), killed, err
}

func (r *run) setStandby(part string, standby *measure.Process, c counted) error {
	peak, err := process.PeakRSS(standby.PID())
	if err != nil {
		return err
	}
	r.set(part, "peak RSS of the standby while it waits", "MiB", mib(peak))
	r.set(part, "its requests while it waits: lists, streamed or not", "", float64(c.streamed+c.lists))
	return nil
}

// settled waits until a process has used less than a twentieth of a core for two seconds.
func settled(ctx context.Context, p *measure.Process) error {
	var last time.Duration
	return p.Wait(ctx, "rest", func() (time.Duration, bool) {
		cpu, err := process.CPUTime(p.PID())
		done := err == nil && last > 0 && cpu-last < 100*time.Millisecond
		last = cpu
		return 2 * time.Second, done
	})
}

// watchLease watches the signer's Lease, and returns who holds it.
func (r *run) watchLease(ctx context.Context) (w watch.Interface, holder string, err error) {
	const name = "servingcert-signer"
	leases := r.Client.CoordinationV1().Leases(api.DefaultNamespace)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, "", err
	}
	w, err = leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: lease.ResourceVersion})
	return w, ptr.Deref(lease.Spec.HolderIdentity, ""), err
}

// nextHolder waits until somebody else than the first holds the Lease, and returns when that
// was seen.
func nextHolder(ctx context.Context, w watch.Interface, first string) (time.Time, error) {
	for {
		select {
		case e := <-w.ResultChan():
			lease, ok := e.Object.(*coordinationv1.Lease)
			if !ok {
				return time.Time{}, errors.New("the watch of the Lease ended")
			}
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" && holder != first {
				return time.Now(), nil
			}
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// next waits for the first event of a watch of Secrets.
func next(ctx context.Context, w watch.Interface) error {
	select {
	case e := <-w.ResultChan():
		if _, ok := e.Object.(*corev1.Secret); !ok {
			return errors.New("the watch of the Secret ended")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
