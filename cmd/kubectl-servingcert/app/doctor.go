package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/collect"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// waitInterval is the interval at which doctor --wait repeats the checks.
const waitInterval = 3 * time.Second

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	*plugin
	collect.Options
	format       string
	all          bool
	strict, wait bool
	errorsOnly   bool
	timeout      time.Duration
}

func (p *plugin) doctorCommand() *cobra.Command {
	return verb{
		about: "Check a cluster: report problems and their fixes. Exit code 1 on an error, 2 if the cluster cannot be checked.",
		usage: "doctor [--pre | --wait] [-n NAMESPACE | -A] [flags]",
		examples: `# Before the installation: check whether it is possible.
kubectl servingcert doctor --pre

# After the installation: wait until everything works.
kubectl servingcert doctor --wait

# Check one namespace in a pipeline, which then also fails on warnings.
kubectl servingcert doctor -n shop --strict`,
		outputs: reportOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := doctorFlags{plugin: p}
			fs.BoolVar(&f.Before, "pre", false, "check the prerequisites of an installation")
			fs.StringVarP(p.kube.Namespace, "namespace", "n", "", "namespace whose Services and workloads are checked (default: all)")
			fs.BoolVarP(&f.all, "all-namespaces", "A", false, "the Services and workloads of all namespaces (the default)")
			fs.StringVarP(&f.format, "output", "o", "text", reportOutputs.String())
			fs.BoolVar(&f.strict, "strict", false, "exit with code 1 on warnings too")
			fs.BoolVar(&f.errorsOnly, "errors-only", false, "show only errors")
			fs.BoolVar(&f.wait, "wait", false, "wait until there are no errors")
			fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long --wait waits")
			fs.StringVar(&f.DryRunNamespace, "dry-run-namespace", "", "namespace of the pod that is created with dryRun=All to test the webhook (default: the first opted-in namespace)")
			fs.BoolVar(&f.CreateNamespace, "create-namespace", false, "if no namespace is opted in, create one for that pod, and delete it afterwards")
			fs.BoolVar(&f.Kubelets, "kubelets", false, "connect to port 10250 of each node from this machine, and check that kubelets serve their issued certificates")
			systemNamespace(fs, &f.System)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *doctorFlags) validate(args []string) error {
	f.Namespace = *f.kube.Namespace
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q: doctor takes no arguments", args[0])
	case f.kube.oneOrAll(f.all) != nil:
		return f.kube.oneOrAll(f.all)
	case f.Before && f.Kubelets:
		return usagef("--pre and --kubelets are mutually exclusive")
	case f.Before && f.wait:
		return usagef("--pre and --wait are mutually exclusive")
	case f.strict && f.errorsOnly:
		return usagef("--strict and --errors-only are mutually exclusive")
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	}
	return reportOutputs.validate(f.format)
}

func (f *doctorFlags) run(ctx context.Context) error {
	if err := f.kube.named(); err != nil {
		return usageError{err} // exit code 2
	}
	cfg, err := cluster.Config(f.kube)
	if err != nil {
		return usageError{err}
	}
	check := func(ctx context.Context) (doctor.Report, error) {
		facts, now, err := collect.Gather(ctx, cfg, f.Options)
		return facts.Examine(now), err
	}
	r, err := check(ctx)
	if f.wait {
		r, err = f.until(ctx, r, err, check)
	}
	if err != nil {
		return usageError{err}
	}
	shown := r
	if f.errorsOnly {
		shown.Findings = r.AtLeast(doctor.Error)
	}
	if err := writeDoctor(f.streams, shown, f.format, true); err != nil {
		return err
	}
	switch {
	case !r.Examined():
		return usagef("no check could run: this user may not read what the checks need")
	case r.Failed(f.strict):
		return errReported
	}
	return nil
}

// until repeats the checks until there are no errors or the timeout expires, and returns the last report.
// It prints the remaining findings whenever they change.
func (f *doctorFlags) until(ctx context.Context, r doctor.Report, err error, check func(context.Context) (doctor.Report, error)) (doctor.Report, error) {
	bounded, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	printed := ""
	for err != nil || !r.Examined() || r.Failed(f.strict) {
		if text := f.missing(r, err); text != printed {
			_, _ = fmt.Fprintf(f.err, "waiting: %s\n", text)
			printed = text
		}
		select {
		case <-bounded.Done():
			if ctx.Err() == nil {
				_, _ = fmt.Fprintf(f.err, "gave up after %s\n", f.timeout)
			}
			return r, err
		case <-time.After(waitInterval):
		}
		next, nextErr := check(bounded)
		if bounded.Err() != nil {
			continue // keep the last complete report
		}
		r, err = next, nextErr
	}
	return r, err
}

// missing returns the findings that --wait waits for, in one line.
func (f *doctorFlags) missing(r doctor.Report, err error) string {
	if err != nil {
		return err.Error()
	}
	level := doctor.Error
	if f.strict {
		level = doctor.Warning
	}
	var what []string
	for _, found := range r.AtLeast(level) {
		text := strings.TrimSpace(fmt.Sprintf("%s %s", found.ID, found.Object))
		if !slices.Contains(what, text) {
			what = append(what, text)
		}
	}
	return api.Listed(what, 5)
}
