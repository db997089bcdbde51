package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

const (
	// sweepEvery is the interval of Sweep.
	sweepEvery = time.Minute
	// idle is the time after which a request that is not needed is deleted. A needed one is read
	// at least once a minute.
	idle = 10 * time.Minute
)

// note records that a request is needed.
func (c *Client) note(name, tenant string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[name]; p != nil {
		p.wanted = now
	} else {
		c.pending[name] = &pending{tenant: tenant, wanted: now}
	}
}

// use records that the certificate of a request is in its Secret.
func (c *Client) use(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[name]; p != nil {
		p.used = true
	}
}

// admit counts a request as pending, or returns an *issue.PendingError if there are too many.
func (c *Client) admit(name, tenant string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[name] != nil {
		return nil
	}
	its := 0
	for _, p := range c.pending {
		if p.tenant == tenant {
			its++
		}
	}
	if others := len(c.pending) - its; its == 0 && len(c.pending) < maxAll || its < (maxPending-others)/2 {
		c.pending[name] = &pending{tenant: tenant, wanted: now}
		c.full = time.Time{}
		return nil
	}
	if c.full.IsZero() {
		c.full = now
	}
	return &issue.PendingError{Since: c.full, Again: 2 * time.Second, Message: fmt.Sprintf(
		"too many certificates are pending at %s: the limit is %d, and for one namespace or user half of what the others leave", c.config.Issuer, maxPending)}
}

// replaces deletes the previous request for a Secret that now needs another certificate, which may
// need its place.
func (c *Client) replaces(ctx context.Context, owner, name string) {
	c.mu.Lock()
	before := c.owners[owner]
	c.mu.Unlock()
	if before != "" && before != name {
		_ = c.forget(ctx, before) // the sweep tries again
	}
}

// own records the last request for a Secret. Only pending requests are recorded, so that pending
// bounds owners.
func (c *Client) own(owner, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[name] != nil {
		c.owners[owner] = name
	}
}

// forget deletes a request and its key, and no longer counts it.
func (c *Client) forget(ctx context.Context, name string) error {
	if err := c.delete(ctx, name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(name)
	return nil
}

// drop no longer counts a request. The caller holds the lock.
func (c *Client) drop(name string) {
	delete(c.pending, name)
	maps.DeleteFunc(c.owners, func(_, its string) bool { return its == name })
}

// Start sweeps the requests of this process and earlier ones until ctx ends. It runs while this
// process leads.
func (c *Client) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("certmanager")
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if n, err := c.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Info("cannot delete unused CertificateRequests", "error", err.Error())
		} else if n > 0 {
			log.Info("deleted unused CertificateRequests", "requests", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Sweep deletes the requests and keys that are no longer needed, and returns their number.
func (c *Client) Sweep(ctx context.Context) (int, error) {
	requests, err := c.list(ctx)
	if err != nil {
		return 0, err
	}
	keys := &metav1.PartialObjectMetadataList{}
	keys.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err = c.call(ctx, func(ctx context.Context) error {
		return c.config.Live.List(ctx, keys, client.InNamespace(c.config.Namespace), client.MatchingLabels(certmanager.Labels(c.config.Instance)))
	})
	if err != nil {
		return 0, err
	}
	there := map[string]string{} // the tenant by name
	for i := range keys.Items {
		there[keys.Items[i].Name] = certmanager.TenantOf(&keys.Items[i].ObjectMeta)
	}
	for _, r := range requests {
		if !r.IsProbe() {
			there[r.Name] = r.Tenant()
		}
	}
	var errs []error
	old := c.unwanted(there, c.config.Clock())
	for _, name := range old {
		errs = append(errs, c.forget(ctx, name))
	}
	return len(old), errors.Join(errs...)
}

// unwanted returns the existing requests that are no longer needed. It counts those that were not
// known as pending, and assumes for the time of idle that they are needed.
func (c *Client) unwanted(there map[string]string, now time.Time) (old []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = true
	for name, tenant := range there {
		switch p := c.pending[name]; {
		case p == nil:
			c.pending[name] = &pending{tenant: tenant, wanted: now}
		case now.Sub(p.wanted) >= idle:
			old = append(old, name)
		}
	}
	for name, p := range c.pending {
		if _, ok := there[name]; !ok && now.Sub(p.wanted) >= sweepEvery { // it was deleted
			c.drop(name)
		}
	}
	return old
}
