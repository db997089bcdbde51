package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/preview"
)

// injectFlags are what inject was asked.
type injectFlags struct {
	*plugin
	files       []string
	recursive   bool
	namespace   string
	output      string
	diff        bool
	live        bool
	openShift   bool
	defaultMode string
	unknown     string
	trustSource string
	programs    string
	system      string
}

var injectOutputs = outputs{"yaml", "report"}

func (p *plugin) injectCommand() *cobra.Command {
	return verb{
		about: "Preview what the webhook does to manifests, without creating anything.",
		usage: "inject -f FILE|DIR|- [flags]",
		examples: `# What the webhook would change in a manifest.
kubectl servingcert inject -f deployment.yaml --diff

# For each pod of a chart: what is done, or why it is not.
helm template shop ./shop | kubectl servingcert inject -f - -o report

# The pods of a cluster that run without the certificate that they would get now.
kubectl servingcert inject --live -o report`,
		outputs: injectOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := injectFlags{plugin: p}
			fs.StringArrayVarP(&f.files, "filename", "f", nil, "file, directory (its .yaml, .yml and .json files), or - for standard input; can be repeated")
			fs.BoolVarP(&f.recursive, "recursive", "R", false, "read subdirectories too")
			fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of objects that do not set one (default \"default\")")
			fs.StringVarP(&f.output, "output", "o", "yaml", "yaml: the resulting manifests; report: a table of what is done, or why it is not")
			fs.BoolVar(&f.diff, "diff", false, "show only the changes, as a unified diff")
			fs.BoolVar(&f.live, "live", false, "also use the Services and Namespaces of the cluster; without -f, report its pods that were missed")
			fs.BoolVar(&f.openShift, "openshift-compat", false, "also read OpenShift's annotations, as a webhook and a rotator with this flag do")
			fs.StringVar(&f.defaultMode, "default-mode", string(api.ModeArgs), "the webhook's --default-mode: args, env or mount")
			fs.StringVar(&f.unknown, "unknown-programs", string(api.UnknownProgramsFiles), "the webhook's --unknown-programs: files or flags")
			fs.StringVar(&f.trustSource, "trust-source", string(api.TrustFromConfigMap), "the webhook's --trust-source: configmap or clustertrustbundle")
			fs.StringVar(&f.programs, "programs", "", "file with a table of programs, as in ConfigMap "+api.ProgramsName+" (default: with --live that of the cluster, else none)")
			systemNamespace(fs, &f.system)
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
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q: give files with -f", args[0])
	case injectOutputs.validate(f.output) != nil:
		return injectOutputs.validate(f.output)
	case f.diff && f.output == "report":
		return usagef("--diff and -o report are mutually exclusive")
	case len(f.files) == 0 && !f.live:
		return usagef("-f is required: a file, a directory, or - for standard input")
	case len(f.files) == 0 && f.output != "report":
		return usagef("--live without -f reports pods that were missed: it requires -o report")
	}
	if err := f.validateWebhook(); err != nil {
		return err
	}
	for _, name := range f.files {
		if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
			return usagef("-f %q: URLs are not read: must be a file, a directory, or - for standard input (curl -fsSL URL | kubectl servingcert inject -f -)", name)
		}
	}
	if i := slices.Index(f.files, "-"); i >= 0 && slices.Contains(f.files[i+1:], "-") {
		return usagef(`-f "-": standard input can be read only once`)
	}
	if f.namespace != "" {
		if errs := validation.IsDNS1123Label(f.namespace); len(errs) > 0 {
			return usagef("-n %q: not a valid namespace name: %s", f.namespace, strings.Join(errs, "; "))
		}
	}
	return nil
}

// validateWebhook checks the flags that say how the webhook was started.
func (f *injectFlags) validateWebhook() error {
	if detail := api.CheckMode(api.Mode(f.defaultMode)); detail != "" {
		return usagef("--default-mode %q: %s", f.defaultMode, detail)
	}
	if detail := api.CheckUnknownPrograms(api.UnknownPrograms(f.unknown)); detail != "" {
		return usagef("--unknown-programs %q: %s", f.unknown, detail)
	}
	if detail := api.CheckTrustSource(api.TrustSource(f.trustSource)); detail != "" {
		return usagef("--trust-source %q: %s", f.trustSource, detail)
	}
	return nil
}

func (f *injectFlags) run(ctx context.Context) error {
	opts := preview.Options{
		Namespace: f.namespace, OpenShift: f.openShift,
		DefaultMode: api.Mode(f.defaultMode), UnknownPrograms: api.UnknownPrograms(f.unknown), TrustSource: api.TrustSource(f.trustSource),
	}
	if f.programs != "" {
		table, err := readPrograms(f.programs)
		if err != nil {
			return err
		}
		opts.Programs = &table
	}
	if f.live {
		cluster, err := f.connect()
		if err != nil {
			return err
		}
		if len(f.files) == 0 {
			rows, err := cluster.Missed(ctx, f.namespace, f.openShift)
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
	docs, err := f.read(f.in)
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
	return f.complain(f.err, outcomes)
}

// maxPrograms is how large a table of programs may be, in bytes: a ConfigMap holds no more.
const maxPrograms = 1 << 20

// readPrograms returns the table that is built in, with the entries of a file.
func readPrograms(name string) (programs.Table, error) {
	file, err := os.Open(name)
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxPrograms+1))
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %w", err)
	}
	if len(data) > maxPrograms {
		return programs.Table{}, fmt.Errorf("--programs: %s: is larger than %d MiB, which no ConfigMap holds", name, maxPrograms>>20)
	}
	table, err := programs.WithBuiltin(data)
	if err != nil {
		return programs.Table{}, fmt.Errorf("--programs: %s: %w", name, err)
	}
	return table, nil
}

func (f *injectFlags) write(w streams, before, after []preview.Document, outcomes []preview.Outcome) error {
	switch {
	case f.output == "report":
		return writeReport(w.out, preview.Rows(outcomes))
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

// complain prints what the webhook would warn about or refuse, and what could not be
// previewed, unless the report has it. If something failed, the exit code is 1.
func (f *injectFlags) complain(w io.Writer, outcomes []preview.Outcome) error {
	failed := false
	for _, o := range outcomes {
		name := judge.Escape(fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name))
		if o.Path != "" {
			name += judge.Escape(" (" + o.Path + ")")
		}
		switch {
		case o.Problem != nil:
			_, _ = fmt.Fprintf(w, "error: %s: %s: %v\n", o.Document, name, o.Problem)
		case o.Refused != nil:
			_, _ = fmt.Fprintf(w, "refused: %s: %s\n", name, judge.Escape(o.Refused.Error()))
		}
		failed = failed || o.Failed()
		if f.output == "report" {
			continue
		}
		if o.NotLookedInto {
			_, _ = fmt.Fprintf(w, "Warning: %s: %s\n", name, preview.NotLookedInto)
		}
		for _, warning := range o.Report.Warnings() {
			_, _ = fmt.Fprintf(w, "Warning: %s: %s\n", name, judge.Escape(warning))
		}
	}
	if failed {
		return errReported
	}
	return nil
}

func writeReport(w io.Writer, rows []preview.Row) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "NAMESPACE\tWORKLOAD\tCONTAINER\tSECRET\tDONE\tWHY")
	for _, r := range rows {
		cells := []string{r.Namespace, r.Workload, r.Container, r.Secret, r.Done, r.Why}
		for i, cell := range cells {
			cells[i] = judge.Escape(cell)
		}
		_, _ = fmt.Fprintln(tab, strings.Join(cells, "\t"))
	}
	return tab.Flush()
}

// read reads all files, in the order given.
func (f *injectFlags) read(stdin io.Reader) ([]preview.Document, error) {
	var docs []preview.Document
	total := 0
	for _, name := range f.files {
		files := []string{name}
		if name != "-" {
			var err error
			if files, err = f.expand(name); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			parsed, size, err := readFile(file, stdin)
			if err != nil {
				return nil, err
			}
			if total += size; total > preview.MaxTotal {
				return nil, fmt.Errorf("%s: all files together are larger than %d MiB", file, preview.MaxTotal>>20)
			}
			docs = append(docs, parsed...)
		}
	}
	return docs, nil
}

// readFile returns the documents of a file, or of standard input, and how large it is.
func readFile(name string, stdin io.Reader) (docs []preview.Document, size int, err error) {
	from := "standard input"
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = file.Close() }() // it was only read
		from, stdin = name, file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, preview.MaxInput+1))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", from, err)
	}
	docs, err = preview.Parse(from, data)
	return docs, len(data), err
}

// expand returns the manifests of a directory, sorted, or the file itself.
func (f *injectFlags) expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !f.recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: contains no .yaml, .yml or .json file", name)
	}
	return files, err
}
