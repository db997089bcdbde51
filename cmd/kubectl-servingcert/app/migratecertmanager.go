package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/certmanager"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/preview"
)

// migrateCertManagerFlags are what migrate cert-manager was asked.
type migrateCertManagerFlags struct {
	*plugin
	from manifestFlags
	opts certmanager.Options
}

func (p *plugin) migrateCertManagerCommand() *cobra.Command {
	return verb{
		about: "Rewrite manifests whose serving certificates are cert-manager's. Exit code 1 if something stays.",
		usage: "cert-manager -f FILE|DIR|- [flags]",
		examples: `# An operator that kubebuilder scaffolded.
kustomize build config/default | kubectl servingcert migrate cert-manager -f - > operator.yaml

# A chart, with nothing but what stays and why.
helm template crons ./cron-operator | kubectl servingcert migrate cert-manager -f - > /dev/null`,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := migrateCertManagerFlags{plugin: p}
			f.from.add(fs)
			fs.StringVar(&f.opts.ClusterDomain, "cluster-domain", api.DefaultLimits().ClusterDomain, "the signer's --cluster-domain")
			return func(_ context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run()
			}
		},
	}.command()
}

func (f *migrateCertManagerFlags) validate(args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := f.from.required(); err != nil {
		return err
	}
	return f.from.validate()
}

func (f *migrateCertManagerFlags) run() error {
	docs, err := f.from.read(f.in)
	if err != nil {
		return err
	}
	f.opts.Namespace = f.from.namespace
	r, err := certmanager.Migrate(docs, f.opts)
	if err != nil {
		return err
	}
	if _, err := f.manifests.Write(preview.Join(r.Docs)); err != nil {
		return err
	}
	kept := 0
	for _, finding := range r.Findings {
		what := "note"
		if finding.Kept {
			what = "kept"
			kept++
		}
		_, _ = fmt.Fprintf(f.err, "%s: %s\n", what, api.Escape(fmt.Sprintf("%s:%d: %s: %s", finding.File, finding.Line, finding.Object(), finding.Why)))
	}
	_, _ = fmt.Fprintf(f.err, "certificates converted: %d; objects or fields kept: %d\n", r.Converted, kept)
	if r.Converted > 0 {
		_, _ = fmt.Fprintln(f.err, "In a cluster that has them already, delete the Certificates and their Secrets: "+api.Documentation+"operator-webhooks.md")
	}
	if kept > 0 {
		return errReported
	}
	return nil
}
