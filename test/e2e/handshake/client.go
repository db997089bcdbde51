package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Timeout bounds one handshake, the resolution of the name included. Only a connection that hangs takes that long: on
// two cores with a load of 100, as after a reboot, single handshakes take more than 10 s. [Report.Slowest] tells.
const Timeout = time.Minute

// Client shakes hands. Its methods may be called from several goroutines.
type Client struct {
	bundleFile string
	once       bool // the bundle is read once, as many clients do
	interval   time.Duration
	dialer     net.Dialer

	mu       sync.Mutex
	bundle   []byte
	roots    *x509.CertPool
	started  time.Time
	bundles  []time.Time
	accounts []*account
}

// account is the account of a target, and the end of its loop; nil: there is none.
type account struct {
	Account
	stop context.CancelFunc
}

// New returns a client that trusts what is in the file, read anew for each
// handshake unless once is set, and that pauses for the interval between two
// handshakes with one target.
func New(bundleFile string, once bool, interval time.Duration, now time.Time) (*Client, error) {
	c := &Client{bundleFile: bundleFile, once: once, interval: interval, started: now}
	_, err := c.trusted()
	return c, err
}

// trusted are the roots in the file. A kubelet swaps a directory, so that what is
// read is never half a file.
func (c *Client) trusted() (*x509.CertPool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.once && c.roots != nil {
		return c.roots, nil
	}
	bundle, err := os.ReadFile(c.bundleFile)
	if err != nil {
		return nil, err
	}
	if c.roots != nil && slices.Equal(bundle, c.bundle) {
		return c.roots, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s: no certificate in it", c.bundleFile)
	}
	c.bundle = bundle
	if c.roots == nil || !roots.Equal(c.roots) { // kubelets shuffle the roots of ClusterTrustBundles anew
		c.roots = roots
		c.bundles = append(c.bundles, time.Now())
	}
	return c.roots, nil
}

// Follow sets the targets. Those that were followed before and still are go on;
// those that are not are followed no more, and what came of them stays in the
// report.
func (c *Client) Follow(ctx context.Context, targets []Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.accounts {
		if a.stop != nil && !slices.Contains(targets, a.Target) {
			a.stop()
			a.stop = nil
		}
	}
	for _, t := range targets {
		a := c.of(t)
		if a.stop == nil {
			var loop context.Context
			loop, a.stop = context.WithCancel(ctx)
			go c.loop(loop, a)
		}
	}
}

// of returns the account of a target, a new one for a new target.
func (c *Client) of(t Target) *account {
	if i := slices.IndexFunc(c.accounts, func(a *account) bool { return a.Target == t }); i >= 0 {
		return c.accounts[i]
	}
	a := &account{Account: Account{Target: t}}
	c.accounts = append(c.accounts, a)
	return a
}

// loop shakes hands with one target until ctx ends. A handshake that is under way
// then is not counted.
func (c *Client) loop(ctx context.Context, a *account) {
	for {
		at := time.Now()
		leaf, err := c.Shake(ctx, a.Target)
		took := time.Since(at)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		if err != nil {
			a.failed(Failure{At: at, Took: took, Err: err.Error()})
		} else {
			a.succeeded(at.Add(took), took, leaf)
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.interval):
		}
	}
}

// Shake is one handshake over a connection of its own, and the target's exchange; it returns the
// leaf, which has been verified, or nil if the target speaks plaintext.
func (c *Client) Shake(ctx context.Context, t Target) (*x509.Certificate, error) {
	exchange, ok := exchanges[t.Exchange]
	if !ok {
		return nil, fmt.Errorf("there is no exchange %q", t.Exchange)
	}
	roots, err := c.trusted()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	to := &connector{target: t, dialer: &c.dialer}
	to.config = &tls.Config{ServerName: t.Name, RootCAs: roots, MinVersion: tls.VersionTLS12, VerifyConnection: func(s tls.ConnectionState) error {
		to.leaf = s.PeerCertificates[0]
		return nil
	}}
	if err := exchange(ctx, to); err != nil {
		return nil, err
	}
	return to.leaf, nil
}

// Report is what came of it so far.
func (c *Client) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{Started: c.started, Bundles: slices.Clone(c.bundles)}
	for _, a := range c.accounts {
		r.Accounts = append(r.Accounts, a.clone())
	}
	return r
}
