package controller

import (
	"context"
	"time"

	"github.com/servingcert/servingcert/pkg/ca"
)

// How long answers are used again: each reconcile may follow the one before at
// once.
const (
	askEvery   = time.Minute     // the remote CA
	countEvery = 5 * time.Second // the certificates in use
)

// remoteCA asks the remote CA and keeps its answer.
type remoteCA struct {
	ask func(context.Context) (ca.Candidate, error)
	at  time.Time // zero: it was never asked
	ca  ca.Candidate
	err error
}

// get returns the remote CA as it is at now, give or take askEvery.
func (r *remoteCA) get(ctx context.Context, now time.Time) (ca.Candidate, error) {
	if r.at.IsZero() || r.err != nil || now.Sub(r.at).Abs() >= askEvery {
		r.ca, r.err = r.ask(ctx)
		r.at = now
	}
	return r.ca, r.err
}

// leafCount counts the certificates in use and keeps the count.
type leafCount struct {
	count func() map[string]int
	at    time.Time
	by    map[string]int // nil: they were not seen yet
}

// get returns how many certificates each issuer has signed, by fingerprint; nil if
// they were not seen yet.
func (l *leafCount) get(now time.Time) map[string]int {
	if l.by == nil || now.Sub(l.at).Abs() >= countEvery {
		l.by, l.at = l.count(), now
	}
	return l.by
}
