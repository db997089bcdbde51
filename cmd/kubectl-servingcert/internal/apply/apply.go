// Package apply carries out a plan in a cluster, wave by wave, and looks after each step whether the
// ports still have their endpoints.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// Timing is how often an Applier looks, and how long it waits for what nothing reports.
type Timing struct {
	Look time.Duration // between two looks
	// Settle is how long endpoints are looked at after a Service was patched: nothing reports that their
	// controller has seen it.
	Settle time.Duration
	// Endpoints is how long a port may take to have its endpoints again.
	Endpoints time.Duration
}

// DefaultTiming returns that of the command.
func DefaultTiming() Timing {
	return Timing{Look: time.Second, Settle: 5 * time.Second, Endpoints: time.Minute}
}

// Applier carries out plans.
type Applier struct {
	Client       kubernetes.Interface
	FieldManager string
	Out          io.Writer // a line for each step
	// DryRun: the API server is asked what it would do, and nothing is changed.
	DryRun bool
	// Timeout is how long to wait for a certificate, and for a rollout.
	Timeout time.Duration
	Timing  Timing
	// Secret returns whether a Secret exists, and the value of its label servingcert.dev/managed-by. No key is read.
	Secret func(ctx context.Context, namespace, name string) (exists bool, managedBy string, err error)
	// Unseen are the Services of which Run did not see that they serve TLS, though nothing failed.
	Unseen []string
}

// Chosen returns the Services of a plan of which Run changes something, wave by wave.
func Chosen(p plan.Plan) [][]plan.Service {
	var waves [][]plan.Service
	for _, s := range p.Services { // in the order of their waves
		if s.Wave == 0 || s.Way == plan.WayMove || s.ManagedBy != "" {
			continue
		}
		if n := len(waves); n > 0 && waves[n-1][0].Wave == s.Wave {
			waves[n-1] = append(waves[n-1], s)
		} else {
			waves = append(waves, []plan.Service{s})
		}
	}
	return waves
}

// Run carries out the waves that Chosen returns. It ends with the first wave that fails: the next ones call
// its Services.
func (a *Applier) Run(ctx context.Context, waves [][]plan.Service) error {
	for _, wave := range waves {
		if err := a.wave(ctx, wave); err != nil {
			return err
		}
	}
	return nil
}

func (a *Applier) print(format string, args ...any) { _, _ = fmt.Fprintf(a.Out, format+"\n", args...) }

// step is a Service of the wave, and what was seen of it before.
type step struct {
	plan.Service
	before *corev1.Service
	ready  map[int32]bool // its ports that had ready endpoints
}

func (s step) id() string { return s.Namespace + "/" + s.Name }

func (a *Applier) wave(ctx context.Context, services []plan.Service) error {
	for _, namespace := range namespaces(services) { // first: the signer may then write to Services that ask already
		if err := a.optIn(ctx, namespace); err != nil {
			return err
		}
	}
	var steps []step
	for _, s := range services {
		st, err := a.look(ctx, s)
		if err != nil {
			return err
		}
		steps = append(steps, st)
	}
	for i, s := range steps {
		if err := a.patch(ctx, s); err != nil {
			return errors.Join(err, a.seen(ctx, steps[:i]))
		}
	}
	if a.DryRun {
		return nil
	}
	if err := a.seen(ctx, steps); err != nil {
		return err
	}
	if err := a.replace(ctx, steps); err != nil {
		return withPatched(err, steps)
	}
	return nil
}

// replace waits for the certificates, has the pods replaced, and looks whether the ports are served.
func (a *Applier) replace(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := a.issued(ctx, s); err != nil {
			return err
		}
	}
	byHand, err := a.rollOut(ctx, steps)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.waitsFor(byHand) {
			a.unseen(s, "serves TLS once the pods that were named are replaced")
			continue
		}
		if err := a.served(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// withPatched adds to an error which Services were patched beside the one that it is about: they keep what was added, and the next run
// goes on with them.
func withPatched(err error, steps []step) error {
	var patched []string
	for _, s := range steps {
		if s.Patch != nil {
			patched = append(patched, s.id())
		}
	}
	if len(patched) < 2 {
		return err
	}
	return fmt.Errorf("%w. Patched in this wave, and gone on with by the next run: %s", err, strings.Join(patched, ", "))
}

// waitsFor reports whether one of its workloads is among those that somebody else replaces the pods of.
func (s step) waitsFor(byHand []string) bool {
	return slices.ContainsFunc(s.Workloads, func(w string) bool { return slices.Contains(byHand, s.Namespace+"/"+w) })
}

// unseen takes note of a Service that was not seen to serve TLS.
func (a *Applier) unseen(s step, why string) {
	a.Unseen = append(a.Unseen, s.id())
	a.print("service %s: not seen to serve TLS: %s", s.id(), why)
}

// namespaces returns those of the Services, each once.
func namespaces(services []plan.Service) (out []string) {
	for _, s := range services {
		if !slices.Contains(out, s.Namespace) {
			out = append(out, s.Namespace)
		}
	}
	return out
}

// look reads the Service and its endpoints, and refuses one that was changed since the plan was made.
func (a *Applier) look(ctx context.Context, s plan.Service) (step, error) {
	svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return step{}, fmt.Errorf("Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	st := step{Service: s, before: svc}
	if !s.Unchanged(svc) {
		return step{}, fmt.Errorf("Service %s was changed since the plan was made: run the command again", st.id())
	}
	if err := a.isFree(ctx, st); err != nil {
		return step{}, err
	}
	st.ready, err = a.ready(ctx, svc)
	return st, err
}

// isFree returns an error if the Secret that the Service is to ask for is somebody else's: the signer would refuse it, and new
// pods would mount it.
func (a *Applier) isFree(ctx context.Context, s step) error {
	name := ""
	if s.Patch != nil {
		name = s.Patch.Metadata.Annotations[api.AnnotationSecretName]
	}
	if name == "" {
		return nil
	}
	exists, managedBy, err := a.Secret(ctx, s.Namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		a.print("service %s: not seen whether there is another Secret %s: this user may not read it", s.id(), name)
		return nil
	case err != nil:
		return fmt.Errorf("Secret %s/%s: %w", s.Namespace, name, err)
	case exists && managedBy == "":
		return fmt.Errorf("Service %s: Secret %s exists, and is not of servingcert: set annotation %s of the Service to another name, and run the command again. Nothing was changed in this wave but the label of the namespace",
			s.id(), name, api.AnnotationSecretName)
	}
	return nil
}

// optIn labels the namespace.
func (a *Applier) optIn(ctx context.Context, name string) error {
	ns, err := a.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("Namespace %s: %w", name, err)
	}
	if ns.Labels[api.LabelInject] == api.InjectEnabled {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelInject, api.InjectEnabled)
	if _, err := a.Client.CoreV1().Namespaces().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), a.options()); err != nil {
		return fmt.Errorf("label Namespace %s: %w", name, err)
	}
	a.print("namespace %s: label %s=%s%s", name, api.LabelInject, api.InjectEnabled, a.would())
	return nil
}

func (a *Applier) options() metav1.PatchOptions {
	o := metav1.PatchOptions{FieldManager: a.FieldManager}
	if a.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	return o
}

// would says that nothing was changed, if so.
func (a *Applier) would() string {
	if a.DryRun {
		return " (dry run)"
	}
	return ""
}

// patch adds to the Service what the plan says, and checks what the API server made of it.
func (a *Applier) patch(ctx context.Context, s step) error {
	if s.Patch == nil {
		return nil
	}
	after, err := a.merge(ctx, &s)
	if err != nil {
		return fmt.Errorf("Service %s: %w", s.id(), err)
	}
	if err := s.Patch.Only(s.before, after); err != nil {
		err = fmt.Errorf("Service %s: something in the cluster changes more than was asked for: %w", s.id(), err)
		return a.takeBack(ctx, s, err)
	}
	what := "annotated"
	if s.Patch.Spec != nil {
		what = "port " + s.Patch.Added()
	}
	a.print("service %s: %s%s", s.id(), what, a.would())
	return nil
}

// attempts is how often a Service is patched that others write to meanwhile.
const attempts = 5

// merge patches the Service as it was read. If only its status was written since, it is read again.
func (a *Applier) merge(ctx context.Context, s *step) (*corev1.Service, error) {
	services := a.Client.CoreV1().Services(s.Namespace)
	for i := 1; ; i++ {
		after, err := services.Patch(ctx, s.Name, types.StrategicMergePatchType, s.Patch.Merge(s.before), a.options())
		if !apierrors.IsConflict(err) || i == attempts {
			return after, err
		}
		now, err := services.Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if !s.Unchanged(now) {
			return nil, errors.New("it was changed since the plan was made: run the command again")
		}
		s.before = now
	}
}

// takeBack removes what was added to the Service, and returns why with what came of that.
func (a *Applier) takeBack(ctx context.Context, s step, why error) error {
	if a.DryRun || s.Patch == nil {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Timing.Endpoints)
	defer cancel()
	if _, err := a.Client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.StrategicMergePatchType, s.Patch.Undo(s.before), a.options()); err != nil {
		return fmt.Errorf("%w; and what was added could not be taken back: %w", why, err)
	}
	return fmt.Errorf("%w; what was added to it was taken back", why)
}

// issued waits until the Service has its certificate. Without it, new pods would not start.
func (a *Applier) issued(ctx context.Context, s step) error {
	var ready *metav1.Condition
	err := a.until(ctx, a.Timeout, func(ctx context.Context) (bool, error) {
		svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready = api.Condition(svc, api.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue, nil
	})
	if !errors.Is(err, errTooLong) {
		return err
	}
	said := "the signer has not answered"
	if ready != nil {
		said = fmt.Sprintf("condition %s is %s, %s: %s", api.ConditionReady, ready.Status, api.Escape(ready.Reason), api.Escape(api.Shorten(ready.Message, maxSaid)))
	}
	return fmt.Errorf("Service %s has no certificate after %s: %s. No pod was replaced; the other ports are as they were", s.id(), a.Timeout, said)
}

// maxSaid is how much of what others wrote is shown, in characters.
const maxSaid = 500

// errTooLong is returned by until.
var errTooLong = errors.New("too long")

// until calls done until it returns true or an error, at most for the time.
func (a *Applier) until(ctx context.Context, d time.Duration, done func(context.Context) (bool, error)) error {
	for end := time.Now().Add(d); ; {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errTooLong
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-time.After(a.Timing.Look):
		}
	}
}

// numbers lists ports.
func numbers(ports []int32) string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = fmt.Sprint(p)
	}
	return strings.Join(out, ", ")
}
