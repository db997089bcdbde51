package app

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
	"github.com/servingcert/servingcert/pkg/preview"
)

// analyzeFlags are the flags of analyze, which reads files as inject does.
type analyzeFlags struct {
	*plugin
	from     manifestFlags
	webhook  webhookFlags
	format   string
	strict   bool
	limits   api.Limits
	suffixes []string
}

// analyzeOutputs are the values of -o.
var analyzeOutputs = outputs{"text", "json", "yaml", jsonPath + "TEMPLATE", "github"}

func (p *plugin) analyzeCommand() *cobra.Command {
	return verb{
		about: "Check manifests without a cluster. Exit code 1 on an error, 2 if they cannot be read.",
		usage: "analyze -f FILE|DIR|- [flags]",
		examples: `# The manifests of a directory.
kubectl servingcert analyze -R -f deploy/

# What a chart renders, with annotations in a GitHub pull request.
helm template shop ./shop | kubectl servingcert analyze -f - -o github`,
		outputs: analyzeOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := analyzeFlags{plugin: p, limits: api.DefaultLimits()}
			f.from.add(fs)
			fs.StringVarP(&f.format, "output", "o", "text", analyzeOutputs.String()+"; github prints annotations of GitHub Actions")
			fs.BoolVar(&f.strict, "strict", false, "exit with code 1 on warnings too")
			f.addLimits(fs)
			f.webhook.add(fs)
			f.webhook.addPods(fs)
			fs.StringVar(&f.webhook.programs, "programs", "", "file with a table of programs, as in ConfigMap "+api.ProgramsName)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

// addLimits adds the signer's flags that limit the requests of Services.
func (f *analyzeFlags) addLimits(fs *pflag.FlagSet) {
	fs.DurationVar(&f.limits.MinDuration, "min-duration", f.limits.MinDuration, "the signer's --min-duration")
	fs.DurationVar(&f.limits.MaxDuration, "max-duration", f.limits.MaxDuration, "the signer's --max-duration")
	fs.StringVar(&f.limits.ClusterDomain, "cluster-domain", f.limits.ClusterDomain, "the signer's --cluster-domain")
	fs.StringArrayVar(&f.suffixes, "permit-dns-suffix", nil, "the signer's --permit-dns-suffix; can be repeated")
	fs.BoolVar(&f.limits.PermitClusterIPs, "permit-cluster-ips", false, "the signer's --permit-cluster-ips")
	fs.BoolVar(&f.limits.PermitRSA4096, "permit-rsa4096", false, "the signer's --permit-rsa4096")
}

func (f *analyzeFlags) validate(args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := f.from.required(); err != nil {
		return err
	}
	if err := f.webhook.validate(); err != nil {
		return err
	}
	if err := f.from.validate(); err != nil {
		return err
	}
	if err := analyzeOutputs.validate(f.format); err != nil {
		return err
	}
	if f.limits.MinDuration <= 0 || f.limits.MinDuration > f.limits.MaxDuration {
		return usagef("--min-duration %s: must be positive and at most --max-duration, which is %s", f.limits.MinDuration, f.limits.MaxDuration)
	}
	for _, s := range f.suffixes {
		rule, err := api.ParseSuffixRule(s, f.limits.ClusterDomain)
		if err != nil {
			return usagef("--permit-dns-suffix %w", err)
		}
		f.limits.PermitDNSSuffixes = append(f.limits.PermitDNSSuffixes, rule)
	}
	return nil
}

func (f *analyzeFlags) run(ctx context.Context) error {
	config, err := f.webhook.config()
	if err != nil {
		return usageError{err} // exit code 2
	}
	opts := doctor.Options{Limits: f.limits, Options: preview.Options{Namespace: f.from.namespace, OpenShift: f.webhook.openShift, Config: config}}
	docs, err := f.from.read(f.in)
	if err != nil {
		return usageError{err}
	}
	r, err := doctor.Analyze(ctx, docs, opts)
	if err != nil {
		return usageError{err}
	}
	if err := writeDoctor(f.streams, r, f.format, false); err != nil {
		return err
	}
	if r.Failed(f.strict) {
		return errReported
	}
	return nil
}
