package measure

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Issued says which certificates are waited for.
type Issued struct {
	Namespace string    // of their Secrets; "": all namespaces
	N         int       // certificates
	Before    int       // Secrets that are none of them
	First     int       // certificates that were there at Start
	Start     time.Time // when the wait began
}

// WaitFirst waits for the signer's first Secrets in a namespace, "" for all, beyond those of
// before, and returns how many there are.
func (c *Cluster) WaitFirst(ctx context.Context, p *Process, namespace string, before int) (n int, err error) {
	err = p.Wait(ctx, "first Secret", func() (time.Duration, bool) {
		n, err = c.CountSecrets(ctx, namespace)
		n -= before
		return shortPoll, err == nil && n > 0
	})
	return n, err
}

// WaitIssued waits until all Secrets are there, and then until all conditions are written.
// Each question takes from what is measured, so it is asked seldom: after half of the time
// that is left at the rate so far. A scrape looks at every certificate and comes last.
func (c *Cluster) WaitIssued(ctx context.Context, p *Process, i Issued) error {
	err := p.Wait(ctx, fmt.Sprintf("%d Secrets", i.N), func() (time.Duration, bool) {
		n, err := c.CountSecrets(ctx, i.Namespace)
		n -= i.Before
		return PollAfter(n-i.First, i.N-i.First, time.Since(i.Start)), err == nil && n >= i.N
	})
	if err != nil {
		return err
	}
	return p.WaitRequests(ctx, http.MethodPatch, i.N, i.Start)
}

// WaitRequests waits until the process has made so many requests by the method.
func (p *Process) WaitRequests(ctx context.Context, method string, n int, start time.Time) error {
	return p.Wait(ctx, fmt.Sprintf("%d requests by %s", n, method), func() (time.Duration, bool) {
		m, err := p.Scrape()
		made := m.Sum("rest_client_requests_total", "method", method)
		return PollAfter(int(made), n, time.Since(start)), err == nil && made >= float64(n)
	})
}

// shortPoll is the shortest pause between two questions.
const shortPoll = 20 * time.Millisecond

// PollAfter returns when to ask again of what did done of n since its start: after half of
// the time that the rest will take. What has hardly begun seems to take forever, so it is no
// longer than the time that has passed.
func PollAfter(done, n int, since time.Duration) time.Duration {
	if done <= 0 {
		return shortPoll
	}
	return max(shortPoll, min(since, since*time.Duration(n-done)/time.Duration(done)/2))
}
