package measure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Issued says which certificates are waited for.
type Issued struct {
	Namespace string    // of their Secrets; "": all namespaces
	N         int       // certificates
	Before    int       // Secrets that are none of them
	First     int       // certificates that were there at Start
	Start     time.Time // when the wait began
}

// Cold is what a signer did that found Services without certificates.
type Cold struct {
	Phase                 // from its first certificate to its last condition
	Started time.Duration // from its start to the first certificate
	Total   Usage
}

// IssueCold measures a signer that was just started, until all have their certificates and
// conditions. First and Start of what is waited for are set here.
func (c *Cluster) IssueCold(ctx context.Context, p *Process, i Issued) (cold Cold, err error) {
	if i.First, err = c.waitFirst(ctx, p, i.Namespace, i.Before); err != nil {
		return cold, err
	}
	m, err := c.Begin(ctx, map[string]*Process{TheSigner: p})
	if err != nil {
		return cold, err
	}
	i.Start, cold.Started = m.Start, m.Start.Sub(p.Started)
	if err := c.waitIssued(ctx, p, i); err != nil {
		return cold, err
	}
	if cold.Phase, err = m.End(ctx, i.N-i.First); err != nil {
		return cold, err
	}
	cold.Total, err = p.Usage()
	return cold, err
}

// waitFirst waits for the signer's first Secrets in a namespace, "" for all, beyond those of
// before, and returns how many there are.
func (c *Cluster) waitFirst(ctx context.Context, p *Process, namespace string, before int) (n int, err error) {
	err = p.Wait(ctx, "first Secret", func() (time.Duration, bool) {
		n, err = c.CountSecrets(ctx, namespace)
		n -= before
		return shortPoll, err == nil && n > 0
	})
	return n, err
}

// waitIssued waits until all Secrets are there, and then until all conditions are written.
// Each question takes from what is measured, so it is asked seldom: after half of the time
// that is left at the rate so far. The signer is asked nothing: a scrape looks at every
// certificate.
func (c *Cluster) waitIssued(ctx context.Context, p *Process, i Issued) error {
	err := p.Wait(ctx, fmt.Sprintf("%d Secrets", i.N), func() (time.Duration, bool) {
		n, err := c.CountSecrets(ctx, i.Namespace)
		n -= i.Before
		return PollAfter(n-i.First, i.N-i.First, time.Since(i.Start)), err == nil && n >= i.N
	})
	if err != nil {
		return err
	}
	services, err := c.Client.CoreV1().Services(i.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// Conditions follow their Secrets at once, so those of a few Services are left.
	for j := range services.Items {
		if svc := &services.Items[j]; !saysReady(svc) {
			if err := c.waitReady(ctx, p, svc); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitReady waits until the Service says that it has its certificate.
func (c *Cluster) waitReady(ctx context.Context, p *Process, svc *corev1.Service) error {
	return p.Wait(ctx, fmt.Sprintf("the condition of Service %s/%s", svc.Namespace, svc.Name), func() (time.Duration, bool) {
		now, err := c.Client.CoreV1().Services(svc.Namespace).Get(ctx, svc.Name, metav1.GetOptions{})
		return shortPoll, err == nil && saysReady(now)
	})
}

// saysReady reports whether the Service has its certificate, or asks for none.
func saysReady(svc *corev1.Service) bool {
	_, asks := api.Wants(svc)
	condition := api.Condition(svc, api.ConditionReady)
	return !asks || condition != nil && condition.Status == metav1.ConditionTrue
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
