// Package apply carries out a plan in a cluster, wave by wave, and checks after each step that the ports
// still have their endpoints.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// Timing holds the intervals and timeouts of an Applier that no flag sets.
type Timing struct {
	PollInterval time.Duration
	// Settle is how long endpoints are watched after a Service was patched: nothing reports that their
	// controller has seen the patch.
	Settle time.Duration
	// Endpoints is how long a port may be without endpoints.
	Endpoints time.Duration
	// Serving is how long the rotator may take to see that the Services of a wave serve TLS.
	Serving time.Duration
}

// DefaultTiming returns the timing of the command.
func DefaultTiming() Timing {
	return Timing{PollInterval: time.Second, Settle: 5 * time.Second, Endpoints: time.Minute, Serving: time.Minute}
}

// Applier carries out plans.
type Applier struct {
	Client       kubernetes.Interface
	FieldManager string
	Out          io.Writer // a line for each step
	// DryRun: all patches are dry runs.
	DryRun bool
	// Timeout is how long to wait for a certificate, and for a rollout.
	Timeout time.Duration
	Timing  Timing
	// Secret reports whether a Secret exists, and the value of its label servingcert.dev/managed-by.
	Secret func(ctx context.Context, namespace, name string) (exists bool, managedBy string, err error)
	// Unseen lists the Services that were not seen to serve TLS, although no step failed.
	Unseen []string
	// Unconnected lists the clients that were not seen to connect to all their Services, although no step failed.
	Unconnected []string
	// Called asks the pods of a Service who called.
	Called func(ctx context.Context, namespace, name string) (plan.Called, error)
	// Unguarded lists the Services whose pods were not seen to have their list of clients, although no step failed.
	Unguarded []string
}

// Run carries out the waves that Chosen returns. It ends with the first wave that fails, because the next
// ones call its Services.
func (a *Applier) Run(ctx context.Context, waves []Wave) error {
	var taken []string
	for _, w := range waves {
		for _, s := range w.Services {
			if err := a.isFree(ctx, s); err != nil {
				taken = append(taken, err.Error())
			}
		}
	}
	for _, namespace := range namespaces(waves...) {
		if _, err := a.optedIn(ctx, namespace); err != nil {
			taken = append(taken, err.Error())
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s. Nothing was changed", strings.Join(taken, "; "))
	}
	for _, wave := range waves {
		if err := a.wave(ctx, wave); err != nil {
			return err
		}
	}
	return nil
}

func (a *Applier) print(format string, args ...any) { _, _ = fmt.Fprintf(a.Out, format+"\n", args...) }

// step is a Service of the wave, with its state from before.
type step struct {
	plan.Service
	before  *corev1.Service
	ready   map[string]bool // its ports that had ready endpoints: NUMBER/PROTOCOL
	patched bool            // and not reverted
	serving bool            // condition Serving was True before the rollout
}

func (s *step) id() string { return s.Namespace + "/" + s.Name }

func (a *Applier) wave(ctx context.Context, w Wave) error {
	if _, err := a.readSteps(ctx, w.Services); err != nil { // before anything is changed
		return err
	}
	var labelled []string
	for _, namespace := range namespaces(w) { // first, so that the signer may write to Services with a request
		changed, err := a.optIn(ctx, namespace)
		if err != nil {
			return withChanged(err, labelled, nil)
		}
		if changed {
			labelled = append(labelled, namespace)
		}
	}
	steps, err := a.readSteps(ctx, w.Services)
	if err == nil {
		err = a.steps(ctx, steps, w.Clients)
	}
	if err == nil {
		err = a.guard(ctx, w.Guards)
	}
	return withChanged(err, labelled, steps)
}

func (a *Applier) readSteps(ctx context.Context, services []plan.Service) ([]*step, error) {
	var steps []*step
	for _, s := range services {
		st, err := a.readStep(ctx, s)
		if err != nil {
			return nil, err
		}
		steps = append(steps, st)
	}
	return steps, nil
}

// steps carries out the steps after the opt-in of the namespaces.
func (a *Applier) steps(ctx context.Context, steps []*step, clients []plan.Client) error {
	for i, s := range steps {
		if err := a.patch(ctx, s); err != nil {
			return errors.Join(err, a.keepEndpoints(ctx, steps[:i]))
		}
	}
	if a.DryRun {
		return a.tryClients(ctx, clients)
	}
	if err := a.keepEndpoints(ctx, steps); err != nil {
		return err
	}
	return a.replace(ctx, steps, clients)
}

// replace waits for the certificates, replaces the pods, and checks that the ports are served.
func (a *Applier) replace(ctx context.Context, steps []*step, clients []plan.Client) error {
	for _, s := range steps {
		if err := a.issued(ctx, s); err != nil {
			return err
		}
	}
	replaced, byHand, err := a.rollOut(ctx, steps, clients)
	if err != nil {
		return err
	}
	var served []*step
	for _, s := range steps {
		switch {
		case s.hasAny(byHand):
			a.unseen(s, "it serves TLS once the pods named above are replaced")
			continue
		case len(s.ready) == 0:
			a.unseen(s, "none of its pods was ready before")
			continue
		case s.serving && s.hasAny(replaced):
			a.unseen(s, "condition "+api.ConditionServing+" was True before its pods were replaced, so it may be about the earlier ones: run kubectl servingcert verify --any")
			continue
		}
		if err := a.served(ctx, s); err != nil {
			return err
		}
		served = append(served, s)
	}
	return a.seenServing(ctx, served)
}

// withChanged adds the names of the labelled namespaces and the patched Services to an error.
func withChanged(err error, labelled []string, steps []*step) error {
	if err == nil {
		return nil
	}
	var patched []string
	for _, s := range steps {
		if s.patched {
			patched = append(patched, s.id())
		}
	}
	if len(labelled) > 0 {
		err = fmt.Errorf("%w. These namespaces keep label %s=%s: %s", err, api.LabelInject, api.InjectEnabled, strings.Join(labelled, ", "))
	}
	if len(patched) > 0 {
		err = fmt.Errorf("%w. These Services keep the additions, and the next run continues with them: %s", err, strings.Join(patched, ", "))
	}
	return err
}

// hasAny reports whether one of the workloads is selected by the Service.
func (s *step) hasAny(workloads []string) bool {
	return slices.ContainsFunc(s.Workloads, func(w string) bool { return slices.Contains(workloads, s.Namespace+"/"+w) })
}

// unseen records a Service that was not seen to serve TLS.
func (a *Applier) unseen(s *step, why string) {
	a.Unseen = append(a.Unseen, s.id())
	a.print("service %s: not seen to serve TLS: %s", s.id(), why)
}

// issued waits until the Service has its certificate, without which new pods would not start.
func (a *Applier) issued(ctx context.Context, s *step) error {
	var ready *metav1.Condition
	err := a.until(ctx, a.Timeout, func(ctx context.Context) (bool, error) {
		svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready = api.Condition(svc, api.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue, nil
	})
	if !errors.Is(err, errTimeout) {
		return err
	}
	reason := "the signer has not answered"
	if ready != nil {
		reason = fmt.Sprintf("condition %s is %s, %s: %s", api.ConditionReady, ready.Status, api.Escape(ready.Reason), api.Escape(api.Shorten(ready.Message, maxQuoted)))
	}
	return fmt.Errorf("Service %s has no certificate after %s: %s. No pod was replaced; the other ports are unchanged", s.id(), a.Timeout, reason)
}

// maxQuoted is the maximum length of a quoted message, in characters.
const maxQuoted = 500

// errTimeout is returned by until.
var errTimeout = errors.New("too long")

// until calls done until it returns true or an error, for d at most.
func (a *Applier) until(ctx context.Context, d time.Duration, done func(context.Context) (bool, error)) error {
	for end := time.Now().Add(d); ; {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errTimeout
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-time.After(a.Timing.PollInterval):
		}
	}
}
