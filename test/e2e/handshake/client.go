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

// Timeout is the timeout of a handshake, including DNS. Only a stuck connection takes that long: on two cores with a
// load of 100, as after a reboot, single handshakes take more than 10 s ([Report.Slowest]).
const Timeout = time.Minute

// Client makes handshakes. Its methods are safe for concurrent use.
type Client struct {
	bundleFile string
	once       bool // read the bundle once, as many clients do
	interval   time.Duration
	dialer     net.Dialer

	mu       sync.Mutex
	bundle   []byte
	roots    *x509.CertPool
	started  time.Time
	bundles  []time.Time
	accounts []*account
}

// account is the account of a target, with the end of its loop; nil if none runs.
type account struct {
	Account
	stop context.CancelFunc
}

// New returns a client that trusts the certificates in the file, which it reads for each handshake or,
// if once is set, once. interval is the pause between handshakes with a target.
func New(bundleFile string, once bool, interval time.Duration, now time.Time) (*Client, error) {
	c := &Client{bundleFile: bundleFile, once: once, interval: interval, started: now}
	_, err := c.trusted()
	return c, err
}

// trusted returns the roots in the file. The kubelet replaces a whole directory, so that the file is complete.
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
		return nil, fmt.Errorf("%s: no certificate", c.bundleFile)
	}
	c.bundle = bundle
	if c.roots == nil || !roots.Equal(c.roots) { // kubelets shuffle the roots of ClusterTrustBundles
		c.roots = roots
		c.bundles = append(c.bundles, time.Now())
	}
	return c.roots, nil
}

func (c *Client) trustedFor(t Target) (*x509.CertPool, error) {
	if t.Roots == "" {
		return c.trusted()
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(t.Roots)) {
		return nil, fmt.Errorf("roots of %s: no certificate", t.Address)
	}
	return roots, nil
}

// Follow sets the targets. Removed targets stay in the report.
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

// of returns the account of a target, and creates it if needed.
func (c *Client) of(t Target) *account {
	if i := slices.IndexFunc(c.accounts, func(a *account) bool { return a.Target == t }); i >= 0 {
		return c.accounts[i]
	}
	a := &account{Account: Account{Target: t}}
	c.accounts = append(c.accounts, a)
	return a
}

// loop makes handshakes with a target until ctx ends. It does not count a handshake that is interrupted.
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

// Shake makes a handshake and the target's exchange over a new connection. It returns the verified
// leaf, or nil for plaintext.
func (c *Client) Shake(ctx context.Context, t Target) (*x509.Certificate, error) {
	exchange, ok := exchanges[t.Exchange]
	if !ok {
		return nil, fmt.Errorf("unknown exchange %q", t.Exchange)
	}
	roots, err := c.trustedFor(t)
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

// Report returns the current report.
func (c *Client) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{Started: c.started, Bundles: slices.Clone(c.bundles)}
	for _, a := range c.accounts {
		r.Accounts = append(r.Accounts, a.clone())
	}
	return r
}
