package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// renewFlags are the flags of renew.
type renewFlags struct {
	*plugin
	namespace          string
	all, allNamespaces bool
	selector           string
	wait, dryRun       bool
	timeout            time.Duration
	system, output     string
	names              []string
}

func (p *plugin) renewCommand() *cobra.Command {
	return verb{
		about: "Renew the certificates of Services now, with new keys.",
		usage: "renew [-n NAMESPACE] SERVICE... | --all | -A --all",
		examples: `# Issue a new certificate and key for a Service.
kubectl servingcert renew web

# List the certificates of the cluster that would be renewed.
kubectl servingcert renew -A --all --dry-run

# Renew those of Services with a label, without waiting.
kubectl servingcert renew --all -l app=web --wait=false`,
		outputs: actionOutputs,
		args:    p.live(services),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := renewFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVar(&f.all, "all", false, "every Service of the namespace that requests a certificate")
			fs.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "with --all: the Services of all namespaces")
			fs.StringVarP(&f.selector, "selector", "l", "", "with --all: only Services with these labels")
			fs.BoolVar(&f.dryRun, "dry-run", false, "only print which certificates would be renewed")
			fs.BoolVar(&f.wait, "wait", true, "wait until each Service has a new certificate")
			fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait")
			fs.StringVarP(&f.output, "output", "o", "text", actionOutputs.String())
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				for _, arg := range args {
					f.names = append(f.names, serviceName(arg))
				}
				if err := f.validate(); err != nil {
					return err
				}
				return f.run(ctx, time.Now)
			}
		},
	}.command()
}

func (f *renewFlags) validate() error {
	switch {
	case f.all && len(f.names) > 0:
		return usagef("--all and names of Services are mutually exclusive")
	case !f.all && len(f.names) == 0:
		return usagef("no Service given: name Services, or use --all")
	case f.allNamespaces && !f.all:
		return usagef("-A requires --all: named Services are in one namespace")
	case f.kube.oneOrAll(f.allNamespaces) != nil:
		return f.kube.oneOrAll(f.allNamespaces)
	case f.selector != "" && !f.all:
		return usagef("-l requires --all: Services are given by name or by label")
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	case actionOutputs.validate(f.output) != nil:
		return actionOutputs.validate(f.output)
	}
	return validSelector(f.selector)
}

func (f *renewFlags) run(ctx context.Context, now func() time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if !f.allNamespaces {
		f.namespace = c.Namespace
	}
	r := renewals{header: headerOf("Renewals"), RenewAfter: renewAfter(now()), Services: []status.Renewal{}}
	failed := f.renewAll(ctx, c, &r, now)
	r.fail(failed, f.wait)
	if err := f.write(r); err != nil {
		return err
	}
	return failed
}

// renewAll chooses the Services and renews their certificates. It records in r what was chosen and done, also
// if it fails.
func (f *renewFlags) renewAll(ctx context.Context, c *cluster.Cluster, r *renewals, now func() time.Time) error {
	text := f.aside(f.output)
	chosen, left, err := f.choose(ctx, c)
	for _, s := range chosen {
		r.Services = append(r.Services, status.RenewalOf(s))
	}
	r.NotRenewed = left
	if f.all { // of named Services, one is the error
		for _, n := range left {
			_, _ = fmt.Fprintf(text.out, "not renewed: %s\n", n.Why)
		}
	}
	if err != nil {
		return err
	}
	if err := f.signs(ctx, c, chosen); err != nil {
		return err
	}
	if f.wait && !f.dryRun {
		if f.system, err = text.requireRunning(ctx, c, anyInstallation(f.system), withoutWaiting, "signer"); err != nil {
			return err
		}
	}
	if !f.dryRun {
		return f.renew(ctx, c, *r, text, now)
	}
	for _, s := range r.Services {
		_, _ = fmt.Fprintf(text.out, "would be renewed: %s (Secret %s)\n", s, s.Secret)
	}
	return nil
}

// signs returns an error if no CA can issue. For users who may not read the CA's status, it uses the CA's problem
// on the Services, where the signer also reports it.
func (f *renewFlags) signs(ctx context.Context, c *cluster.Cluster, chosen []status.Service) error {
	for _, s := range chosen {
		if status.IsLost(s.Reason) {
			return fmt.Errorf("nothing can be renewed: %s: %s", s.Reason, s.Message)
		}
	}
	cm, err := c.CAConfigMap(ctx, f.system)
	if err != nil {
		return nil //nolint:nilerr // no permission, another namespace, or the signer has not started yet
	}
	if problem := status.ParseCA(cm.Data).NoCA(); problem != "" {
		return fmt.Errorf("nothing can be renewed: %s", problem)
	}
	return nil
}

// renew requests the renewals, waits for them, and records the progress of each in r.
func (f *renewFlags) renew(ctx context.Context, c *cluster.Cluster, r renewals, text streams, now func() time.Time) error {
	requested, refused := requestAll(ctx, c, r, text.out)
	if !f.wait {
		_, err := fmt.Fprintf(text.out, "renewal requested for %s\n", api.Count(requested, "certificate"))
		return cmp.Or(refused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	bar := text.bar()
	w := follow.Watcher{Cluster: c, Namespace: f.system, Out: bar.Above(text.out), Bar: bar, Now: now, Timeout: f.timeout, Timing: f.timing.Follow}
	switch err := w.Renewal(ctx, r.Services); {
	case refused == nil || err == nil:
		return cmp.Or(refused, err)
	default:
		return fmt.Errorf("%w; %w", refused, err)
	}
}

// ofOne are the reasons for which the API server refuses the change of one Service, and may accept that of others.
var ofOne = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonConflict}

// requestAll requests the renewals, and returns their number. It continues after a refusal of one, and ends at any other error.
func requestAll(ctx context.Context, c *cluster.Cluster, r renewals, out io.Writer) (requested int, failed error) {
	var refused []error
	for i := range r.Services {
		s := &r.Services[i]
		err := request(ctx, c, *s, r.RenewAfter)
		switch {
		case err == nil:
			s.State = status.RenewalRequested
			requested++
		case apierrors.IsNotFound(err):
			s.State = status.RenewalDeleted
			_, _ = fmt.Fprintf(out, "%s was deleted\n", s)
		case slices.Contains(ofOne, apierrors.ReasonForError(err)):
			s.Error = err.Error()
			refused = append(refused, err)
		default:
			return requested, withRefused(err, refused)
		}
	}
	return requested, withRefused(nil, refused)
}

// withRefused returns the first of the refusals, the number of the others, and the error, which may be nil.
func withRefused(err error, refused []error) error {
	if len(refused) == 0 {
		return err
	}
	all := refused[0]
	if more := len(refused) - 1; more > 0 {
		all = fmt.Errorf("%w; and %d more", all, more)
	}
	if err != nil {
		all = fmt.Errorf("%w; %w", all, err)
	}
	return all
}

// renewAfter returns the time to request at now. NotBefore has whole seconds, so a certificate that was issued
// within this second counts as older.
func renewAfter(now time.Time) time.Time { return now.UTC().Truncate(time.Second).Add(time.Second) }

// choose returns the selected Services, and those of them whose certificates cannot be renewed. A named one of
// these is an error.
func (f *renewFlags) choose(ctx context.Context, c *cluster.Cluster) (chosen []status.Service, left []notRenewed, err error) {
	all, err := c.SelectedServices(ctx, f.namespace, f.selector)
	if err == nil {
		err = c.AddOptIn(ctx, all)
	}
	if err != nil {
		for _, name := range f.names {
			left = append(left, notRenewed{f.namespace, name, err.Error()})
		}
		return nil, left, err
	}
	refuse := func(s status.Service) {
		left = append(left, notRenewed{s.Namespace, s.Name, status.CannotRenew(s) + c.RenewedBy(ctx, s)})
	}
	if f.all {
		for _, s := range all {
			if !s.Renewable() {
				refuse(s)
			} else if s.Secret != "" { // not retained
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == 0 {
			return nil, left, fmt.Errorf("no Service requests a certificate that servingcert renews%s", inNamespace(f.namespace))
		}
		return chosen, left, nil
	}
	for _, name := range f.names {
		i := slices.IndexFunc(all, func(s status.Service) bool { return s.Name == name })
		switch {
		case i >= 0 && !all[i].Renewable():
			refuse(all[i])
		case i < 0 || all[i].Secret == "":
			left = append(left, notRenewed{f.namespace, name, fmt.Sprintf("no Service %q requests a certificate%s (annotation %s)", name, inNamespace(f.namespace), api.AnnotationSecretName)})
		default:
			chosen = append(chosen, all[i])
		}
	}
	if len(left) > 0 {
		err = errors.New(left[0].Why)
	}
	return chosen, left, err
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// request requests a certificate that is issued after the given time.
func request(ctx context.Context, c *cluster.Cluster, s status.Renewal, after time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{api.AnnotationRenewAfter: after.Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	if _, err := c.Client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("renew %s: %w", s, err)
	}
	return nil
}
