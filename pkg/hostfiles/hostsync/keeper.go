// Package hostsync keeps the stores of a host: for each of them it looks what there is, has package
// hostfiles decide, and does the one step that was decided.
package hostsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/actions"
	"github.com/servingcert/servingcert/pkg/hostfiles/source"
	"github.com/servingcert/servingcert/pkg/hostfiles/store"
)

// Times.
const (
	// pollEvery is how often a store is looked at in which nothing seems to happen: inotify misses what
	// a directory was replaced by, and nothing tells of what others do to the host's files.
	pollEvery = time.Minute
	// retryAfter is how long after an error of the file system it is tried again.
	retryAfter = 10 * time.Second
	// dialTimeout is how long an address may take to show its certificate.
	dialTimeout = 5 * time.Second
)

// keeper keeps one store.
type keeper struct {
	spec  *hostfiles.Store
	root  string
	delay time.Duration
	pace  time.Duration
	once  bool
	clock func() time.Time
	log   *slog.Logger
	kick  chan struct{} // its source has changed

	mu     sync.Mutex
	status Status
}

// Status is how a store is.
type Status struct {
	Store   string
	Reason  hostfiles.Reason
	Message string
	// NotAfter is when the certificate expires that the store holds, or the first of its bundle; zero:
	// it holds none.
	NotAfter time.Time
	// How often since the process began.
	Switches, Rollbacks, Attempts, Failures int64
}

func (k *keeper) read() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *keeper) change(f func(*Status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.status)
}

// report sets how the store is, and logs it if that is new.
func (k *keeper) report(reason hostfiles.Reason, message string) {
	k.mu.Lock()
	same := k.status.Reason == reason && k.status.Message == message
	k.status.Reason, k.status.Message = reason, message
	k.mu.Unlock()
	switch {
	case same:
	case reason.Ready():
		k.log.Info("store needs no attention", "reason", reason, "message", message)
	default:
		k.log.Warn("store needs attention", "reason", reason, "message", message)
	}
}

// run keeps the store until ctx ends, or with once until nothing is left to do.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.keep(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		if errors.Is(err, store.ErrLocked) {
			k.report(hostfiles.Locked, err.Error())
		} else {
			k.report(hostfiles.CannotWrite, err.Error())
		}
		if k.once {
			return
		}
		k.wait(ctx, k.clock().Add(retryAfter))
	}
}

// keep opens the store, and does step after step.
func (k *keeper) keep(ctx context.Context) error {
	s, err := store.Open(k.root, k.spec, k.clock)
	if err != nil {
		return err
	}
	defer s.Close()
	waiting := func() { k.report(hostfiles.Locked, store.ErrLocked.Error()+"; waiting for it") }
	if k.once {
		waiting = nil
	}
	if err := s.Lock(ctx, waiting); err != nil {
		return err
	}
	for ctx.Err() == nil {
		d, err := k.step(ctx, s)
		if err != nil {
			return err
		}
		if d.Step != hostfiles.Wait {
			continue
		}
		k.report(d.Reason, d.Message)
		if k.once && (d.Reason != hostfiles.InProgress || d.Again.IsZero()) {
			return nil
		}
		k.wait(ctx, d.Again)
	}
	return nil
}

// wait returns at that time, or after pollEvery, or if the source changes.
func (k *keeper) wait(ctx context.Context, until time.Time) {
	length := pollEvery
	if !until.IsZero() {
		length = min(length, max(until.Sub(k.clock()), 0))
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-k.kick:
	}
}

// gather looks what there is.
func (k *keeper) gather(s *store.Store) (hostfiles.Situation, error) {
	held, err := s.Load()
	if err != nil {
		return hostfiles.Situation{}, err
	}
	now := k.clock()
	sit := hostfiles.Situation{
		Store: k.spec, Now: now, Here: held.Here, Previous: held.Previous, Access: held.Access, State: s.State, Delay: k.delay, Pace: k.pace,
		Source: k.source(held.Here),
	}
	k.change(func(st *Status) { st.NotAfter = held.Here.Content.NotAfter() })
	return sit, nil
}

// source reads what the store is to hold.
func (k *keeper) source(here hostfiles.Found) (found hostfiles.Found) {
	files, err := source.Read(k.spec.From)
	if err != nil {
		return hostfiles.Found{Problem: err}
	}
	// A bundle that vanished from the source stays on the host, and the certificate is verified by it.
	keep := here.Content
	if keep == nil {
		keep = &hostfiles.Content{}
	}
	found.Content, found.Problem = hostfiles.Read(k.spec, files, keep.Roots)
	return found
}

// step does the next thing for the store.
func (k *keeper) step(ctx context.Context, s *store.Store) (hostfiles.Decision, error) {
	sit, err := k.gather(s)
	if err != nil {
		return hostfiles.Decision{}, err
	}
	d := hostfiles.Decide(sit)
	switch d.Step {
	case hostfiles.Wait:
	case hostfiles.Install:
		err = k.install(ctx, s, d)
	case hostfiles.GoBack:
		err = k.goBack(s, sit, d)
	case hostfiles.Act:
		err = k.act(ctx, s)
	case hostfiles.Dial:
		err = k.dial(ctx, s)
	case hostfiles.SetModes:
		err = s.SetModes(sit.Here.Content)
	}
	return d, err
}

func (k *keeper) install(ctx context.Context, s *store.Store, d hostfiles.Decision) error {
	var before hostfiles.Served
	if k.spec.Check != nil {
		before = look(ctx, k.spec.Check)
	}
	if err := k.begin(s, s.State.Begin(k.spec, d.Content, before, "", "", k.clock())); err != nil {
		return err
	}
	if err := s.Install(d.Content, d.KeepPrevious); err != nil {
		return err
	}
	k.change(func(st *Status) { st.Switches++ })
	k.log.Info("store switched", "content", name(d.Content))
	return nil
}

func (k *keeper) goBack(s *store.Store, sit hostfiles.Situation, d hostfiles.Decision) error {
	state := s.State.Begin(k.spec, d.Content, hostfiles.Served{}, d.Message, sit.Here.Content.ID, k.clock())
	if err := k.begin(s, state); err != nil {
		return err
	}
	if err := s.Install(d.Content, true); err != nil {
		return err
	}
	k.change(func(st *Status) { st.Rollbacks++ })
	k.log.Warn("store went back", "content", name(d.Content), "why", d.Message)
	return nil
}

// begin writes down that a switch is about to be made.
func (*keeper) begin(s *store.Store, state hostfiles.State) error {
	before := s.State
	s.State = state
	if err := s.Save(); err != nil {
		s.State = before
		return err
	}
	return nil
}

// name says which content it is.
func name(c *hostfiles.Content) string {
	if c.Leaf == nil {
		return "bundle " + c.ID[:8]
	}
	return "leaf " + c.Fingerprint[:8]
}

func (k *keeper) act(ctx context.Context, s *store.Store) error {
	sw := s.State.Switch
	// The same for an attempt that is made again because the process was killed in it.
	attempt := fmt.Sprintf("%s-%d", sw.To[:12], sw.Attempts+1)
	err := actions.Run(ctx, k.spec, attempt)
	if ctx.Err() != nil {
		return ctx.Err() // it is run again
	}
	k.change(func(st *Status) {
		st.Attempts++
		if err != nil {
			st.Failures++
		}
	})
	if err != nil {
		k.log.Warn("action failed", "action", k.spec.Action.String(), "error", err)
	} else {
		k.log.Info("action done", "action", k.spec.Action.String())
	}
	s.State = s.State.Acted(err, k.clock())
	return s.Save()
}

// dial looks at the address, and writes down what changes something.
func (k *keeper) dial(ctx context.Context, s *store.Store) error {
	served := look(ctx, k.spec.Check)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	before := *s.State.Switch
	s.State = s.State.Observed(k.spec, served, k.clock())
	if now := s.State.Switch; now.Proven == before.Proven && now.Verdict == before.Verdict {
		return nil
	}
	if s.State.Switch.Proven {
		k.log.Info("certificate is served", "address", k.spec.Check.Address)
	}
	return s.Save()
}
