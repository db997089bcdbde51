package controller

import (
	"context"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// How long answers are reused: reconciles may follow each other at once.
const (
	askEvery   = time.Minute     // of the remote CA
	countEvery = 5 * time.Second // of the certificates in use
)

// remoteCA reads the remote CA and caches the answer.
type remoteCA struct {
	ask func(context.Context, time.Time) (ca.Candidate, error)
	at  time.Time // zero: never read
	ca  ca.Candidate
	err error
	// request is the unanswered request to start over, first seen at since. A person makes it after
	// the remote CA was replaced, so that an earlier answer does not count. Zero: there is none.
	request api.RotateRequest
	since   time.Time
}

// get returns the remote CA, at most askEvery old, and not from before the request.
func (r *remoteCA) get(ctx context.Context, now time.Time, request api.RotateRequest) (ca.Candidate, error) {
	if request != r.request {
		r.request, r.since = request, now
		if request == (api.RotateRequest{}) {
			r.since = time.Time{}
		}
	}
	if r.since.After(now) { // the clock was set back
		r.since = now
	}
	if r.at.IsZero() || r.err != nil || r.at.Before(r.since) || now.Sub(r.at).Abs() >= askEvery {
		r.ca, r.err = r.ask(ctx, r.since)
		r.at = now
	}
	return r.ca, r.err
}

// leafCount counts the certificates in use and caches the count.
type leafCount struct {
	count func() map[string]int
	at    time.Time
	by    map[string]int // nil: not counted yet
}

// get returns how many certificates each issuer has signed, by fingerprint; nil if
// they are not counted yet.
func (l *leafCount) get(now time.Time) map[string]int {
	if l.by == nil || now.Sub(l.at).Abs() >= countEvery {
		l.by, l.at = l.count(), now
	}
	return l.by
}
