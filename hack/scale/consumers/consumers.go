// Package consumers has the rotator look at pods that serve: when it begins to lead, when all
// certificates are renewed, and when none of the pods takes up its new one.
package consumers

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Config says how many pods serve, and who looks at them.
type Config struct {
	*measure.Cluster
	Rotator        string // the binary
	Workers        int    // of the client that makes all of it
	Pods           int
	PodsPerService int // that share a certificate; each Service is one workload
}

// Watched is what was done until every Service said what there was to say.
type Watched struct {
	measure.Phase
	Dials, Writes float64 // of the rotator
}

// perNamespace is how many Services a namespace has.
const perNamespace = 100

// padding makes a pod as large as those of a cluster, 5 KB.
var padding = strings.Repeat("0123456789abcdef", 250)

// Open makes Services and pods that serve the certificates of their conditions, and starts
// the servers.
func Open(ctx context.Context, c Config) (*Field, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	f := &Field{Config: c, s: servers{Port: netip.MustParseAddrPort(address).Port(), Pairs: map[string]pairPEM{}}}
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	f.servers, err = startServers(ctx, c.Dir, f.s)
	return f, err
}

// Start starts the rotator with the memory limit of deploy/install.yaml, and waits until it
// has seen what every pod serves.
func (f *Field) Start(ctx context.Context) (Watched, error) {
	var err error
	if f.Process, err = f.RunRotator(ctx, f.Rotator, "--controllers=pods", "--pod-cidrs=127.0.0.0/8"); err != nil {
		return Watched{}, err
	}
	return f.measure(ctx, "conditions that say that all is served", f.allServed, func() error { return nil })
}

// Rotate renews all certificates at once, and has them served after a while.
func (f *Field) Rotate(ctx context.Context, after time.Duration) (Watched, error) {
	return f.measure(ctx, "conditions that say that all is served", f.allServed, func() error {
		if err := f.renew(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return ctx.Err()
		}
		return f.servers.reload(f.s)
	})
}

// LeaveStale renews all certificates at once, while every pod goes on serving the one that it
// has, and waits until every workload is called stale.
func (f *Field) LeaveStale(ctx context.Context) (Watched, error) {
	return f.measure(ctx, "conditions that say that all is stale", f.allStale, func() error { return f.renew(ctx) })
}

// measure does something and measures until it is seen to be done.
func (f *Field) measure(ctx context.Context, what string, done func(context.Context) bool, do func() error) (w Watched, err error) {
	before := f.count()
	m, err := f.Begin(ctx, map[string]*measure.Process{measure.TheRotator: f.Process})
	if err != nil {
		return w, err
	}
	if err := do(); err != nil {
		return w, err
	}
	if err := f.Process.Wait(ctx, what, func() (time.Duration, bool) { return 500 * time.Millisecond, done(ctx) }); err != nil {
		return w, err
	}
	if w.Phase, err = m.End(ctx, f.Pods); err != nil {
		return w, err
	}
	after := f.count()
	w.Dials, w.Writes = after.Dials-before.Dials, after.Writes-before.Writes
	return w, nil
}

// count reads what the rotator has done since its start; a process that does not answer yet
// has done nothing.
func (f *Field) count() Watched {
	m, err := f.Process.Scrape()
	if err != nil {
		return Watched{}
	}
	return Watched{Dials: m.Sum("servingcert_probes_total"), Writes: m.Writes()}
}

// Kill ends both if they were not closed.
func (f *Field) Kill() {
	if f.Process != nil {
		f.Process.Kill()
	}
	f.servers.kill()
}

// Close ends the rotator and the servers.
func (f *Field) Close() error { return errors.Join(f.Process.Stop(), f.servers.stop()) }

// Field is the Services, their pods and servers, and the rotator.
type Field struct {
	Config
	Process *measure.Process // the rotator
	s       servers
	servers *serverProcess
	root    *x509.Certificate
	key     crypto.Signer
}

func (f *Field) services() int { return f.Pods / f.PodsPerService }

// all reports whether the metric counts every pod in the state, and what is said of every
// Service is so.
func (f *Field) all(ctx context.Context, state string, so func(*corev1.Service) bool) bool {
	m, err := f.Process.Scrape()
	if err != nil || m.Sum("servingcert_consumers", "state", state) != float64(f.Pods) {
		return false
	}
	list, err := f.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	n := 0
	for i := range list.Items {
		if _, annotated := list.Items[i].Annotations[api.AnnotationSecretName]; annotated && so(&list.Items[i]) {
			n++
		}
	}
	return n == f.services()
}

// allServed reports whether every Service says that what it should be is served.
func (f *Field) allServed(ctx context.Context) bool {
	return f.all(ctx, "current", func(svc *corev1.Service) bool {
		leaf, _ := state.LeafOf(svc)
		said, _ := state.ServingOf(svc)
		c := api.Condition(svc, api.ConditionServing)
		return c != nil && c.Status == metav1.ConditionTrue && said.Leaf == leaf
	})
}

// allStale reports whether every Service says that an older certificate is served, and the
// list of stale workloads has been written since.
func (f *Field) allStale(ctx context.Context) bool {
	return f.all(ctx, "stale", func(svc *corev1.Service) bool {
		c := api.Condition(svc, api.ConditionServing)
		return c != nil && c.Status == metav1.ConditionFalse
	})
}
