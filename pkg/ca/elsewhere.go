package ca

import (
	"context"
	"time"
)

// askEvery is how long an answer of the CA elsewhere counts, and countEvery how
// long a count of the certificates in use does: each look at the CA may follow
// the one before at once.
const (
	askEvery   = time.Minute
	countEvery = 5 * time.Second
)

// answer is what the CA elsewhere said.
type answer struct {
	at     time.Time // zero: it was never asked
	remote Candidate
	err    error
}

// remote returns the CA elsewhere as it is at now, give or take askEvery.
func (c *Controller) remote(ctx context.Context, now time.Time) (Candidate, error) {
	if c.elsewhere.at.IsZero() || c.elsewhere.err != nil || now.Sub(c.elsewhere.at).Abs() >= askEvery {
		remote, err := c.cfg.Remote(ctx)
		c.elsewhere = answer{now, remote, err}
	}
	return c.elsewhere.remote, c.elsewhere.err
}

// counts are the certificates in use.
type counts struct {
	at time.Time
	by map[string]int // nil: they were not seen yet
}

// leaves returns how many certificates each issuer has signed, by fingerprint;
// nil if nobody counts, or not yet.
func (c *Controller) leaves(now time.Time) map[string]int {
	if c.cfg.Leaves == nil {
		return nil
	}
	if c.counted.by == nil || now.Sub(c.counted.at).Abs() >= countEvery {
		c.counted = counts{now, c.cfg.Leaves()}
	}
	return c.counted.by
}
