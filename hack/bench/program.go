package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/installed"
)

const (
	patience  = 20 * time.Minute      // of every wait
	shortPoll = 20 * time.Millisecond // shortest interval of polling
	// signerMemory is the signer's GOMEMLIMIT in deploy/install.yaml in MiB, enough for 10 000 certificates.
	signerMemory = 112
)

// program is a measured process.
type program struct {
	*installed.Process
	begun time.Time
}

// startProgram starts a process as its Deployment does, with further arguments.
func (b *bench) startProgram(ctx context.Context, kind string, args ...string) (p *program, err error) {
	p = &program{begun: time.Now()}
	p.Process, err = b.Run(ctx, kind, append(args, "--metrics-insecure")...)
	return p, err
}

// startSigner starts the signer, with more memory than in deploy/install.yaml for more certificates.
func (b *bench) startSigner(ctx context.Context, args ...string) (*program, error) {
	if memory := signerMemory * b.n / 10_000; memory > signerMemory {
		b.env = []string{fmt.Sprintf("GOMEMLIMIT=%dMiB", memory)}
		defer func() { b.env = nil }()
	}
	return b.startProgram(ctx, "signer", append(args, fmt.Sprint("--workers=", workers))...)
}

// restartSigner starts the signer, and waits until it has checked all issued certificates.
func (b *bench) restartSigner(ctx context.Context, args ...string) (*program, error) {
	p, err := b.startSigner(ctx, args...)
	if err != nil {
		return nil, err
	}
	if err = p.wait(ctx, fmt.Sprintf("check of %d Secrets", b.issued), func() (time.Duration, bool) {
		m, err := p.Scrape(ctx)
		looked := m.Sum("controller_runtime_reconcile_total", "controller", "signer") >= float64(b.issued) && m.Sum("workqueue_depth", "controller", "signer") == 0
		return 10 * shortPoll, err == nil && looked
	}); err != nil {
		b.kill(p)
	}
	return p, err
}

// stop stops a process, so that it releases its Lease, and removes it.
func (b *bench) stop(p *program) error {
	if err := p.Stop(); err != nil {
		return fmt.Errorf("the %s ended with: %w", p.Name(), err)
	}
	b.kill(p)
	return nil
}

// kill kills a process and removes it with its log, whose name the next one of its kind uses.
func (b *bench) kill(p *program) {
	p.Kill()
	_ = os.Remove(p.Log.File)
	b.Processes = slices.DeleteFunc(b.Processes, func(other *installed.Process) bool { return other == p.Process })
}

// wait calls done until it returns true, each time after the pause that it returned.
func (p *program) wait(ctx context.Context, what string, done func() (pause time.Duration, done bool)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		pause, done := done()
		if done {
			return nil
		}
		select {
		case <-time.After(pause):
			continue
		case <-p.Ended():
		case <-ctx.Done():
		}
		return fmt.Errorf("no %s after %s; the log of the %s ends:\n%s", what, time.Since(p.begun).Round(time.Second), p.Name(), strings.Join(p.Log.Tail(12), "\n"))
	}
}

// pollAfter returns the pause before progress is checked again, if done of n took since: half of the
// expected rest, and at most since.
func pollAfter(done, n int, since time.Duration) time.Duration {
	if done <= 0 {
		return shortPoll
	}
	return max(shortPoll, min(since, since*time.Duration(n-done)/time.Duration(done)/2))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
