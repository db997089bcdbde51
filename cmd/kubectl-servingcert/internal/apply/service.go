package apply

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// readStep reads the Service and its endpoints. It fails if the Service was changed since the plan was made.
func (a *Applier) readStep(ctx context.Context, s plan.Service) (*step, error) {
	svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	st := &step{Service: s, before: svc}
	if !s.Unchanged(svc) {
		return nil, fmt.Errorf("Service %s was changed since the plan was made: run the command again", st.id())
	}
	st.ready, err = a.ready(ctx, svc)
	return st, err
}

// isFree returns an error if the Secret that the Service would request exists and is not managed by servingcert: the
// signer would refuse it, and new pods would mount it.
func (a *Applier) isFree(ctx context.Context, s plan.Service) error {
	id := s.Namespace + "/" + s.Name
	name := ""
	if s.Patch != nil {
		name = s.Patch.Metadata.Annotations[api.AnnotationSecretName]
	}
	if name == "" || s.Patch.Metadata.Annotations[api.AnnotationIssuer] == string(api.IssuerExternal) {
		return nil // or another issuer writes it
	}
	exists, managedBy, err := a.Secret(ctx, s.Namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		a.print("service %s: cannot check whether another Secret %s exists: this user may not read it", id, name)
		return nil
	case err != nil:
		return fmt.Errorf("Secret %s/%s: %w", s.Namespace, name, err)
	case exists && managedBy == "":
		return fmt.Errorf("Service %s: Secret %s exists, and is not managed by servingcert: set annotation %s of the Service to another name, or annotations %s: %s and %s: %s to keep its issuer, and run the command again",
			id, name, api.AnnotationSecretName, api.AnnotationSecretName, name, api.AnnotationIssuer, api.IssuerExternal)
	}
	return nil
}

// optedIn reports whether the namespace is opted in. Another value of the label is an error, and stays.
func (a *Applier) optedIn(ctx context.Context, name string) (bool, error) {
	ns, err := a.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("Namespace %s: %w", name, err)
	}
	value, set := ns.Labels[api.LabelInject]
	if set && value != api.InjectEnabled {
		return false, fmt.Errorf("Namespace %s has label %s=%s: remove the label first if its Services are to have certificates", name, api.LabelInject, api.Escape(value))
	}
	return set, nil
}

// optIn labels the namespace, and reports whether it changed that.
func (a *Applier) optIn(ctx context.Context, name string) (changed bool, err error) {
	if already, err := a.optedIn(ctx, name); already || err != nil {
		return false, err
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, api.LabelInject, api.InjectEnabled)
	if _, err := a.Client.CoreV1().Namespaces().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), a.options()); err != nil {
		return false, fmt.Errorf("label Namespace %s: %w", name, err)
	}
	a.print("namespace %s: label %s=%s%s", name, api.LabelInject, api.InjectEnabled, a.would())
	return !a.DryRun, nil
}

func (a *Applier) options() metav1.PatchOptions {
	o := metav1.PatchOptions{FieldManager: a.FieldManager}
	if a.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	return o
}

// would returns the note of a dry run.
func (a *Applier) would() string {
	if a.DryRun {
		return " (dry run)"
	}
	return ""
}

// patch makes the additions to the Service, and checks the result.
func (a *Applier) patch(ctx context.Context, s *step) error {
	if s.Patch == nil {
		return nil
	}
	after, err := a.merge(ctx, s)
	if err != nil {
		return fmt.Errorf("Service %s: %w", s.id(), err)
	}
	s.patched = !a.DryRun
	if err := s.Patch.Only(s.before, after); err != nil {
		err = fmt.Errorf("Service %s: something in the cluster changes more than was requested: %w", s.id(), err)
		return a.revert(ctx, s, err)
	}
	what := "annotated"
	if s.Patch.Spec != nil {
		what = "port " + s.Patch.Added()
	}
	a.print("service %s: %s%s", s.id(), what, a.would())
	return nil
}

// attempts is the maximum number of patches after conflicts.
const attempts = 5

// merge patches the Service as it was read. If only its status has changed since, it reads it again.
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

// revert removes the additions to the Service, and returns why with the outcome.
func (a *Applier) revert(ctx context.Context, s *step, why error) error {
	if !s.patched {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.Timing.Endpoints)
	defer cancel()
	if _, err := a.Client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.StrategicMergePatchType, s.Patch.Undo(s.before), a.options()); err != nil {
		return fmt.Errorf("%w; and the addition could not be reverted: %w", why, err)
	}
	s.patched = false
	return fmt.Errorf("%w; the addition was reverted", why)
}
