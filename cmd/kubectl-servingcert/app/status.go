package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// statusFlags are the flags of status.
type statusFlags struct {
	*plugin
	namespace, system, output string
	selector                  string
	all, watch, noHeaders     bool
	guarded                   bool // one of the Services lists its clients: the table has a column for that
	name                      string
}

var statusOutputs = outputs{"text", "wide", "json", "yaml", "name", jsonPath + "TEMPLATE"}

func (p *plugin) statusCommand() *cobra.Command {
	return verb{
		about: "Show the CA, the targets of its bundle, the CA for identities, and the certificates of Services. Exit code 1 if a CA cannot sign, or a process of servingcert is not running.",
		usage: "status [-n NAMESPACE | -A] [SERVICE] [flags]",
		examples: `# The CA, and the Services of the namespace.
kubectl servingcert status

# Why a Service has no certificate.
kubectl servingcert status web

# When the certificates of all Services expire.
kubectl servingcert status -A -o jsonpath='{range .services[*]}{.namespace}/{.name} {.notAfter}{"\n"}{end}'`,
		outputs: statusOutputs,
		args:    atMostOne(p.live(services)),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := statusFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVarP(&f.all, "all-namespaces", "A", false, "the Services of all namespaces")
			fs.StringVarP(&f.selector, "selector", "l", "", "only Services with these labels, such as app=web,tier!=test")
			fs.StringVarP(&f.output, "output", "o", "text", statusOutputs.String())
			fs.BoolVar(&f.noHeaders, "no-headers", false, "print only the rows of the Services, without the CA, column names and remarks")
			fs.BoolVarP(&f.watch, "watch", "w", false, "keep printing a row for each Service that changes")
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx, time.Now())
			}
		},
	}.command()
}

func (f *statusFlags) validate(args []string) error {
	if err := oneService(args, &f.name); err != nil {
		return err
	}
	switch {
	case statusOutputs.validate(f.output) != nil:
		return statusOutputs.validate(f.output)
	case f.watch && f.output != "text" && f.output != "wide":
		return usagef("--watch requires -o text or -o wide")
	case f.selector != "" && f.name != "":
		return usagef("-l and the name of a Service are mutually exclusive")
	case f.kube.oneOrAll(f.all) != nil:
		return f.kube.oneOrAll(f.all)
	case f.all && f.name != "":
		return usagef("-A and the name of a Service are mutually exclusive")
	}
	return validSelector(f.selector)
}

// oneService sets name from at most one argument.
func oneService(args []string, name *string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q: name at most one Service", args[1])
	}
	if len(args) == 1 {
		*name = serviceName(args[0])
	}
	return nil
}

// serviceName returns the name of a Service given as NAME, or as service/NAME as -o name prints it.
func serviceName(arg string) string {
	for _, kind := range []string{"service/", "services/", "svc/"} {
		if name, ok := strings.CutPrefix(arg, kind); ok {
			return name
		}
	}
	return arg
}

// validSelector returns an error if a label selector is invalid.
func validSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return usagef("-l %q: %w", selector, err)
	}
	return nil
}

// report is the output of status.
type report struct {
	header
	Processes []doctor.Process `json:"processes"`
	CA        *status.CA       `json:"ca,omitempty"`    // nil: the user may not read it
	Trust     *status.Trust    `json:"trust,omitempty"` // nil: the rotator has not written it
	// Identities is the CA that signs identities; nil: there is none, or the user may not read it
	Identities *status.Identities  `json:"identities,omitempty"`
	Clients    []status.OldClients `json:"clients,omitempty"` // clients that may hold an older CA bundle
	// ClientsNotSeen is why they are unknown, or empty.
	ClientsNotSeen string           `json:"clientsNotSeen,omitempty"`
	Services       []status.Service `json:"services"`
	detailed       bool             // one Service, with the messages of its conditions
}

func (f *statusFlags) run(ctx context.Context, now time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if !f.all {
		f.namespace = c.Namespace
	}
	r, err := f.gather(ctx, c)
	if err != nil {
		return err
	}
	columns := &table{}
	if err := f.write(r, columns, now); err != nil {
		return err
	}
	if f.watch {
		return f.follow(ctx, c, r.Services, columns)
	}
	away := slices.ContainsFunc(r.Processes, func(p doctor.Process) bool { return p.State == doctor.ProcessAway })
	if away || r.CA != nil && r.CA.Problem != "" || r.Identities != nil && r.Identities.Problem != "" {
		return errReported
	}
	return nil
}

func (f *statusFlags) gather(ctx context.Context, c *cluster.Cluster) (*report, error) {
	r := &report{header: headerOf("Status"), detailed: f.name != ""}
	err := f.gatherCA(ctx, c, r)
	if err != nil {
		return nil, err
	}
	if r.Processes, err = c.Processes(ctx, f.system); err != nil {
		return nil, err
	}
	if r.Services, err = c.SelectedServices(ctx, f.namespace, f.selector); err != nil {
		return nil, err
	}
	if f.name != "" {
		r.Services = slices.DeleteFunc(r.Services, func(s status.Service) bool { return s.Name != f.name })
		if len(r.Services) == 0 {
			return nil, fmt.Errorf("namespace %q has no Service %q that requests a certificate", f.namespace, f.name)
		}
		if r.Services[0].Outdated, err = c.Outdated(ctx, f.namespace, f.name); err != nil {
			return nil, err
		}
	}
	if err := c.AddOptIn(ctx, r.Services); err != nil {
		return nil, err
	}
	return r, c.AddTimes(ctx, f.namespace, r.Services)
}

// gatherCA reads the CA's status, as the signer and the rotator report it. Users who may read only their
// own namespace see their Services without it.
func (f *statusFlags) gatherCA(ctx context.Context, c *cluster.Cluster, r *report) error {
	cm, err := c.CAConfigMap(ctx, f.system)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	ca := status.ParseCA(cm.Data)
	r.CA = &ca
	if r.Trust, err = c.Trust(ctx, f.system); err != nil {
		return err
	}
	if r.Identities, err = c.Identities(ctx, f.system); err != nil {
		return err
	}
	r.Clients, r.ClientsNotSeen, err = c.OldClients(ctx, f.namespace, cm.Data)
	return err
}
