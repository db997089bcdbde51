// Package hostsync maintains the stores of a host. For each store it reads source and installed files, calls
// hostfiles.Decide, and does the step that was decided.
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

// Intervals and timeouts.
const (
	// pollEvery is the interval at which a store is checked without an event: inotify misses a directory that
	// replaces a watched one, and the host's files are not watched.
	pollEvery = time.Minute
	// retryAfter is the delay after an error of the file system.
	retryAfter = 10 * time.Second
	// dialTimeout limits a connection and handshake with the address of a check.
	dialTimeout = 5 * time.Second
	// settle is the delay after a change of the source. Its owner may change it all the time, and each look
	// reads and verifies it.
	settle = 100 * time.Millisecond
)

// keeper maintains one store.
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

// Status is the status of a store.
type Status struct {
	Store   string
	Reason  hostfiles.Reason
	Message string
	// NotAfter is that of the installed content; zero if there is none.
	NotAfter time.Time
	// Counters since the process started.
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

// report sets reason and message, and logs them if they changed.
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

// run maintains the store until ctx ends, or with once until no step is possible.
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

// keep locks the store, and does its steps.
func (k *keeper) keep(ctx context.Context) error {
	s, err := store.Open(k.root, k.spec, k.clock)
	if err != nil {
		return err
	}
	defer s.Close()
	waiting := func() { k.report(hostfiles.Locked, store.ErrLocked.Error()+"; waiting for the lock") }
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

// wait returns at the time until, after pollEvery, or when the source changes.
func (k *keeper) wait(ctx context.Context, until time.Time) {
	length := pollEvery
	if !until.IsZero() {
		length = min(length, max(until.Sub(k.clock()), 0))
	}
	select {
	case <-ctx.Done():
	case <-time.After(length):
	case <-k.kick:
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
	}
}

// gather reads the input of the decision.
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

// source reads the desired content.
func (k *keeper) source(here hostfiles.Found) (found hostfiles.Found) {
	files, err := source.Read(k.spec.From)
	if err != nil {
		return hostfiles.Found{Problem: err}
	}
	// If the source has no bundle, the installed one stays, and verifies the certificate.
	keep := here.Content
	if keep == nil {
		keep = &hostfiles.Content{}
	}
	found.Content, found.Problem = hostfiles.Read(k.spec, files, keep.Roots)
	return found
}

// step does the next step for the store.
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
		before = observe(ctx, k.spec.Check)
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
	k.log.Warn("store rolled back", "content", name(d.Content), "message", d.Message)
	return nil
}

// begin saves the state before a switch.
func (*keeper) begin(s *store.Store, state hostfiles.State) error {
	before := s.State
	s.State = state
	if err := s.Save(); err != nil {
		s.State = before
		return err
	}
	return nil
}

// name identifies a content in the log.
func name(c *hostfiles.Content) string {
	if c.Leaf == nil {
		return "bundle " + c.ID[:8]
	}
	return "leaf " + c.Fingerprint[:8]
}

func (k *keeper) act(ctx context.Context, s *store.Store) error {
	sw := s.State.Switch
	// The name is the same if the attempt runs again after a crash.
	attempt := fmt.Sprintf("%s-%d", sw.To[:12], sw.Attempts+1)
	err := actions.Run(ctx, k.spec, attempt)
	if ctx.Err() != nil {
		return ctx.Err() // the next process runs it again
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
		k.log.Info("action succeeded", "action", k.spec.Action.String())
	}
	s.State = s.State.Acted(err, k.clock())
	return s.Save()
}

// dial observes the address, and saves the state if the verdict changes.
func (k *keeper) dial(ctx context.Context, s *store.Store) error {
	served := observe(ctx, k.spec.Check)
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
