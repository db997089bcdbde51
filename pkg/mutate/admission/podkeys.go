package admission

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

const (
	// askEvery is how often the API server is asked whether it serves
	// PodCertificateRequests: the gate may be turned on at any time, and off.
	askEvery = 10 * time.Second
	// askAgain is when it is asked again if it did not answer.
	askAgain = time.Second
	// believed is for how long an answer counts while no other follows.
	believed = time.Minute
)

// podKeys knows whether the API server serves PodCertificateRequests. It asks beside the
// reviews, so that a review does not wait for the API server.
type podKeys struct {
	ask   func(ctx context.Context) (version string, err error)
	clock func() time.Time
	log   logr.Logger

	shared *sharedRead[bool]
	last   atomic.Pointer[servedAnswer] // nil until the API server has answered
}

// servedAnswer is what the API server said, and when.
type servedAnswer struct {
	served bool
	at     time.Time
}

func newPodKeys(ask func(context.Context) (string, error), clock func() time.Time, log logr.Logger) *podKeys {
	p := &podKeys{ask: ask, clock: clock, log: log}
	p.shared = newSharedRead(liveTimeout, func(ctx context.Context, _ string) (bool, error) { return p.look(ctx) })
	return p
}

// serves reports whether they are served, by the last answer. Without one that counts, it
// asks the API server, once for all reviews that wait.
func (p *podKeys) serves(ctx context.Context) (bool, error) {
	if last := p.last.Load(); last != nil && p.clock().Sub(last.at) <= believed {
		return last.served, nil
	}
	return p.shared.get(ctx, "")
}

// answered reports whether the API server has answered once.
func (p *podKeys) answered() bool { return p.last.Load() != nil }

// look asks the API server, and keeps the answer.
func (p *podKeys) look(ctx context.Context) (bool, error) {
	version, err := p.ask(ctx)
	if err != nil {
		return false, fmt.Errorf("find out whether kubelets make keys: %w", err)
	}
	now := &servedAnswer{served: version != "", at: p.clock()}
	before := p.last.Swap(now)
	switch {
	case now.served && (before == nil || !before.served):
		p.log.Info("PodCertificateRequests are served", "version", version)
	case !now.served && before != nil && before.served:
		p.log.Info("PodCertificateRequests are not served any more: pods with keys of their own are refused")
	}
	return now.served, nil
}

// follow asks again and again, until ctx ends.
func (p *podKeys) follow(ctx context.Context) error {
	failing := false
	for {
		wait := askEvery
		_, err := p.shared.get(ctx, "")
		if err != nil && ctx.Err() == nil {
			wait = askAgain
			if !failing {
				p.log.Info("the API server did not answer", "why", err.Error())
			}
		}
		failing = err != nil
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
