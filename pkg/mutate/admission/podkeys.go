package admission

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// For how long the API server's answer is believed whether kubelets make keys: the gate
// of PodCertificateRequests may be turned on at any time, and is hardly ever turned off.
const (
	servedFor    = time.Minute
	notServedFor = time.Second
)

// podKeys knows whether the API server serves PodCertificateRequests. It asks only if a
// review depends on it.
type podKeys struct {
	ask   func(ctx context.Context) (version string, err error)
	clock func() time.Time

	mu     sync.Mutex
	served bool
	until  time.Time
}

// serves reports whether they are served, from what was asked a short while ago. One
// review asks, the others wait for its answer.
func (p *podKeys) serves(ctx context.Context) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clock().Before(p.until) {
		return p.served, nil
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	version, err := p.ask(ctx)
	if err != nil {
		return false, fmt.Errorf("find out whether kubelets make keys: %w", err)
	}
	p.served, p.until = version != "", p.clock().Add(notServedFor)
	if p.served {
		p.until = p.clock().Add(servedFor)
	}
	return p.served, nil
}
