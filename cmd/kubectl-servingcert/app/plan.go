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
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// planFlags are the flags of plan, which reads files as inject does.
type planFlags struct {
	*plugin
	from          manifestFlags
	webhook       webhookFlags
	system        string
	format        string
	all           bool
	clusterDomain string
	names         []string

	apply, dryRun, yes bool
	timeout            time.Duration
}

// planOutputs are the values of -o.
var planOutputs = outputs{"text", "json", "yaml", "html", jsonPath + "TEMPLATE"}

func (p *plugin) planCommand() *cobra.Command {
	return verb{
		about: "Plan the move of Services and their clients to TLS: plaintext references, and the order of the steps. --apply carries it out.",
		usage: "plan [SERVICE…] [-f FILE|DIR|- | -n NAMESPACE | -A] [flags]",
		examples: `# All Services of a cluster, in the order of their moves.
kubectl servingcert plan

# One Service: its ports, the references to it, and the steps.
kubectl servingcert plan web -n shop

# A chart, as a page for a browser.
helm template shop ./shop | kubectl servingcert plan -f - -o html > plan.html

# Add the ports of a namespace and roll out the pods: first a preview, then the change.
kubectl servingcert plan -n shop --apply --dry-run
kubectl servingcert plan -n shop --apply

# For a repository: the complete Services and clients, with the additions.
kubectl servingcert plan -f ./manifests -o yaml`,
		outputs: planOutputs,
		args:    p.live(allServices),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := planFlags{plugin: p}
			fs.StringArrayVarP(&f.from.files, "filename", "f", nil, "read manifests instead of a cluster: file, directory (its .yaml, .yml and .json files), or - for standard input; can be repeated")
			fs.BoolVarP(&f.from.recursive, "recursive", "R", false, "read subdirectories too")
			fs.StringVarP(p.kube.Namespace, "namespace", "n", "", "namespace of the Services (default: all); with -f, of objects that do not set one (default \"default\")")
			fs.BoolVarP(&f.all, "all-namespaces", "A", false, "the Services of all namespaces (the default)")
			fs.StringVarP(&f.format, "output", "o", "text", planOutputs.String()+"; yaml prints the Services and clients with the additions, for a repository; html prints a page")
			fs.BoolVar(&f.apply, "apply", false, "carry out the plan for the named Services, -n or -A: add ports and annotations, and roll out the pods, wave by wave; only -A changes clients in other namespaces; asks for confirmation")
			fs.BoolVar(&f.dryRun, "dry-run", false, "with --apply: send the changes as dry runs only")
			fs.BoolVar(&f.yes, "yes", false, "with --apply: do not ask for confirmation")
			fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "with --apply: how long to wait for a certificate, and for a rollout")
			fs.StringVar(&f.clusterDomain, "cluster-domain", "cluster.local", "the signer's --cluster-domain")
			f.webhook.add(fs)
			fs.StringVar(&f.webhook.trustDomain, "trust-domain", "", "the webhook's --trust-domain: also plan the lists of clients of Services (default: if a pod shows that there is one)")
			fs.StringVar(&f.webhook.programs, "programs", "", "file with a table of programs, as in ConfigMap "+api.ProgramsName+" (default: the table of the cluster or of the manifests)")
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				if err := f.validateApply(); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *planFlags) validate(args []string) error {
	f.from.namespace = *f.kube.Namespace
	for _, arg := range args {
		f.names = append(f.names, serviceName(arg))
	}
	switch {
	case f.kube.oneOrAll(f.all) != nil:
		return f.kube.oneOrAll(f.all)
	case f.all && len(f.from.files) > 0:
		return usagef("-f and -A are mutually exclusive")
	case f.from.recursive && len(f.from.files) == 0:
		return usagef("-R requires -f")
	}
	if err := f.webhook.validate(); err != nil {
		return err
	}
	if len(f.from.files) > 0 {
		if err := f.from.validate(); err != nil {
			return err
		}
	}
	return planOutputs.validate(f.format)
}

func (f *planFlags) run(ctx context.Context) error {
	config, err := f.webhook.config()
	if err != nil {
		return err
	}
	opts := plan.Options{ClusterDomain: f.clusterDomain, OpenShift: f.webhook.openShift, Config: config, System: f.system}
	read := f.ofCluster
	if len(f.from.files) > 0 {
		read = f.ofFiles
	}
	p, err := read(ctx, opts)
	if err != nil {
		return err
	}
	if f.apply {
		return f.carryOut(ctx, p)
	}
	return f.writePlan(p)
}

func (f *planFlags) ofFiles(_ context.Context, opts plan.Options) (plan.Plan, error) {
	docs, err := f.from.read(f.in)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.OfManifests(docs, f.from.namespace, opts).Only(f.names)
}

func (f *planFlags) ofCluster(ctx context.Context, opts plan.Options) (plan.Plan, error) {
	c, err := f.connect()
	if err != nil {
		return plan.Plan{}, err
	}
	if opts.Programs == nil {
		table, warning, err := c.Programs(ctx, f.system)
		if err != nil {
			return plan.Plan{}, err
		}
		if warning != "" {
			_, _ = fmt.Fprintf(f.err, "Warning: %s\n", warning)
		}
		opts.Programs = table
	}
	cfg, err := cluster.Config(f.kube)
	if err != nil {
		return plan.Plan{}, err
	}
	return c.Plan(ctx, cfg, f.from.namespace, f.names, opts)
}

// title returns the scope of the plan.
func (f *planFlags) title() string {
	switch {
	case len(f.from.files) == 1 && f.from.files[0] == "-":
		return "manifests"
	case len(f.from.files) > 0:
		return strings.Join(f.from.files, ", ")
	case f.from.namespace != "":
		return "namespace " + f.from.namespace
	}
	return "all namespaces"
}

// planData is a plan as data.
type planData struct {
	header
	plan.Plan
}

// ways holds the label and the style of each way.
var ways = map[plan.Way]struct {
	text string
	how  style
}{
	plan.WayPort: {"add a port", doubt}, plan.WayNative: {"annotate", doubt}, plan.WayRollout: {"roll out", doubt}, plan.WayMove: {"move clients", doubt},
	plan.WayCheck: {"not verified", doubt}, plan.WayDone: {"nothing to do", good}, plan.WayNone: {"not possible", bad},
}

// portsToday returns the protocol of each port.
func portsToday(s plan.Service) string {
	out := make([]string, 0, len(s.Ports))
	for _, p := range s.Ports {
		out = append(out, fmt.Sprintf("%d %s", p.Port, p.Today))
	}
	return strings.Join(out, ", ")
}

// portsToAdd returns the ports that are added.
func portsToAdd(s plan.Service) string {
	i := slices.IndexFunc(s.Steps, func(step plan.Step) bool { return strings.HasPrefix(step.What, "add the port ") })
	if i < 0 {
		return "-"
	}
	return strings.TrimPrefix(s.Steps[i].What, "add the port ")
}
