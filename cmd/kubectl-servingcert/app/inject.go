package app

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/preview"
)

// injectFlags are the flags of inject.
type injectFlags struct {
	*plugin
	from    manifestFlags
	webhook webhookFlags
	output  string
	diff    bool
	live    bool
	system  string
	host    hostFlags
	table   *programs.Table // nil: the built-in table
}

// outputHostsync is the value of -o that prints the hostsync DaemonSets for static pods.
const outputHostsync = "hostsync"

var injectOutputs = outputs{"yaml", "report", outputHostsync}

func (p *plugin) injectCommand() *cobra.Command {
	return verb{
		about: "Preview the webhook's changes to manifests, without creating anything.",
		usage: "inject -f FILE|DIR|- [flags]",
		examples: `# The webhook's changes to a manifest.
kubectl servingcert inject -f deployment.yaml --diff

# For each pod of a chart: what is injected, or why nothing is.
helm template shop ./shop | kubectl servingcert inject -f - -o report

# The running pods of a cluster without a certificate that new pods would get.
kubectl servingcert inject --live -o report

# A static pod: first the DaemonSet that fills the directory on its node, then the manifest for the kubelet.
kubectl servingcert inject --host -f kube-scheduler.yaml -o hostsync | kubectl apply -f -
kubectl servingcert inject --host -f kube-scheduler.yaml`,
		outputs: injectOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := injectFlags{plugin: p}
			f.from.add(fs)
			fs.StringVarP(&f.output, "output", "o", "yaml", "yaml: the resulting manifests, with comments (changed ones may be reindented, and JSON is sorted); report: a table of what is injected, or why nothing is; hostsync: with --host, the DaemonSet that writes the files")
			fs.BoolVar(&f.diff, "diff", false, "show only the changes, as a unified diff")
			fs.BoolVar(&f.live, "live", false, "also use the Services and Namespaces of the cluster; without -f, report its pods that were missed")
			f.webhook.add(fs)
			f.webhook.addPods(fs)
			fs.StringVar(&f.webhook.programs, "programs", "", "file with a table of programs, as in ConfigMap "+api.ProgramsName+" (default: with --live the table of the cluster, otherwise none)")
			systemNamespace(fs, &f.system)
			f.host.add(fs)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *injectFlags) validate(args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := injectOutputs.validate(f.output); err != nil {
		return err
	}
	if f.diff && f.output != "yaml" {
		return usagef("--diff and -o %s are mutually exclusive", f.output)
	}
	if err := f.host.validate(f.output, f.live); err != nil {
		return err
	}
	if !f.live {
		if err := f.from.required(); err != nil {
			return err
		}
	}
	if len(f.from.files) == 0 && f.output != "report" {
		return usagef("--live without -f reports pods that were missed: it requires -o report")
	}
	if err := f.webhook.validate(); err != nil {
		return err
	}
	return f.from.validate()
}

func (f *injectFlags) run(ctx context.Context) error {
	config, err := f.webhook.config()
	if err != nil {
		return err
	}
	config.HostFiles = f.host.files()
	opts := preview.Options{Namespace: f.from.namespace, OpenShift: f.webhook.openShift, Config: config}
	if f.live {
		cluster, err := f.connect()
		if err != nil {
			return err
		}
		if len(f.from.files) == 0 {
			rows, err := cluster.Missed(ctx, f.from.namespace, f.webhook.openShift, f.webhook.trustDomain)
			if err != nil {
				return err
			}
			return writeReport(f.out, rows)
		}
		opts.Live = cluster.Known
		if opts.Programs == nil {
			table, warning, err := cluster.Programs(ctx, f.system)
			if err != nil {
				return err
			}
			if warning != "" {
				_, _ = fmt.Fprintf(f.err, "Warning: %s\n", warning)
			}
			opts.Programs = table
		}
	}
	f.table = opts.Programs
	docs, err := f.from.read(f.in)
	if err != nil {
		return err
	}
	after, outcomes, err := preview.Run(ctx, docs, opts)
	if err != nil {
		return err
	}
	if err := f.write(f.streams, docs, after, outcomes); err != nil {
		return err
	}
	return f.printProblems(f.err, outcomes)
}

func (f *injectFlags) write(w streams, before, after []preview.Document, outcomes []preview.Outcome) error {
	switch {
	case f.output == "report":
		return writeReport(w.out, preview.Rows(outcomes))
	case f.output == outputHostsync:
		return f.host.write(w.manifests, outcomes, f.table)
	case !f.diff:
		_, err := w.manifests.Write(preview.Join(after))
		return err
	}
	for i := range before {
		if bytes.Equal(before[i].Bytes(), after[i].Bytes()) {
			continue
		}
		name := before[i].Name()
		if _, err := w.manifests.Write(diff.Diff(name, before[i].Bytes(), name+", injected", after[i].Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// printProblems prints the webhook's refusals, failed previews and, unless the report contains them, warnings.
// It returns errReported if a preview failed or a pod is refused.
func (f *injectFlags) printProblems(w io.Writer, outcomes []preview.Outcome) error {
	failed := false
	for _, o := range outcomes {
		name := api.Escape(fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name))
		if o.Path != "" {
			name += api.Escape(" (" + o.Path + ")")
		}
		switch {
		case o.Problem != nil:
			_, _ = fmt.Fprintf(w, "error: %s: %s: %v\n", o.Document, name, o.Problem)
		case o.Refused != nil:
			_, _ = fmt.Fprintf(w, "refused: %s: %s\n", name, api.Escape(o.Refused.Error()))
		}
		failed = failed || o.Failed()
		if f.output == "report" {
			continue
		}
		if o.NotLookedInto {
			_, _ = fmt.Fprintf(w, "Warning: %s: %s\n", name, preview.NotLookedInto)
		}
		for _, warning := range o.Report.Warnings() {
			_, _ = fmt.Fprintf(w, "Warning: %s: %s\n", name, api.Escape(warning))
		}
	}
	if failed {
		return errReported
	}
	return nil
}

func writeReport(w io.Writer, rows []preview.Row) error {
	lines := [][]cell{cells("NAMESPACE", "WORKLOAD", "CONTAINER", "SECRET", "DONE", "WHY")}
	for _, r := range rows {
		lines = append(lines, cells(r.Namespace, r.Workload, r.Container, r.Secret, r.Done, r.Why))
	}
	return new(table).write(screen{to: w}, lines...)
}
