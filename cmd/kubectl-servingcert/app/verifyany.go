package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// anyFlags are the flags of verify --any.
type anyFlags struct {
	set, all, direct bool
	failOn           []string
	clusterDomain    string
}

func (a *anyFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&a.set, "any", false, "dial every port of the ready pods behind Services, and report the certificates that they serve, whoever issued them")
	fs.BoolVarP(&a.all, "all-namespaces", "A", false, "with --any: the pods of all namespaces")
	fs.BoolVar(&a.direct, "direct", false, "with --any: dial the addresses of the pods, which this machine has to reach, and not through the API server as kubectl port-forward does")
	fs.StringSliceVar(&a.failOn, "fail-on", nil, "with --any: problems for which the exit code is 1: "+strings.Join(status.PortProblems(), ", ")+", or none (default "+strings.Join(status.ServerProblems(), ",")+")")
	fs.StringVar(&a.clusterDomain, "cluster-domain", api.DefaultLimits().ClusterDomain, "with --any: domain of the cluster, below which the Services have their names")
}

func (f *verifyFlags) validateAny(args []string) error {
	switch {
	case len(args) > 0:
		return usagef("unexpected argument %q: --any takes no Service", args[0])
	case f.address != "", f.starttls != "":
		return usagef("--address and --starttls do not go together with --any")
	case f.kube.oneOrAll(f.any.all) != nil:
		return f.kube.oneOrAll(f.any.all)
	case f.any.failOn != nil && len(f.any.failOn) == 0:
		return usagef("--fail-on: must be none, or of %s", strings.Join(status.PortProblems(), ", "))
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	}
	if slices.Equal(f.any.failOn, []string{"none"}) {
		return reportOutputs.validate(f.output)
	}
	for _, problem := range f.any.failOn {
		if !slices.Contains(status.PortProblems(), problem) {
			return usagef("--fail-on %q: must be none, or of %s", problem, strings.Join(status.PortProblems(), ", "))
		}
	}
	if len(f.any.failOn) == 0 {
		f.any.failOn = status.ServerProblems()
	}
	return reportOutputs.validate(f.output)
}

func (f *verifyFlags) runAny(ctx context.Context) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	cfg, err := cluster.Config(f.kube)
	if err != nil {
		return err
	}
	namespace := c.Namespace
	if f.any.all {
		namespace = ""
	}
	report, err := c.ServedPorts(ctx, cfg, namespace, cluster.Dials{Direct: f.any.direct, Timeout: f.timeout, ClusterDomain: f.any.clusterDomain, System: f.system})
	if err != nil {
		return err
	}
	if isData(f.output) {
		err = writeData(f.out, f.output, servedPorts{headerOf("ServedPorts"), report})
	} else {
		err = f.writePorts(report, namespace)
	}
	if err == nil && (len(report.Ports) == 0 || report.Fails(f.any.failOn)) {
		return errReported
	}
	return err
}

// servedPorts is the output of verify --any as data.
type servedPorts struct {
	header
	status.PortReport
}

func (f *verifyFlags) writePorts(report status.PortReport, namespace string) error {
	served, rest := report.Ports, ""
	if report.PodsNotReady > 0 {
		rest = fmt.Sprintf(" %s not ready, and so not dialled.", api.Count(report.PodsNotReady, "pod"))
	}
	if n := report.ServicesWithoutSelector; n > 0 {
		rest += fmt.Sprintf(" %s without a selector not dialled.", api.Count(n, "Service"))
	}
	if len(served) == 0 {
		where := "in any namespace"
		if namespace != "" {
			where = fmt.Sprintf("in namespace %q", namespace)
		}
		_, err := fmt.Fprintf(f.out, "No Service selects a ready pod %s.%s\n", where, rest)
		return err
	}
	rows := [][]cell{cells("NAMESPACE", "WORKLOAD", "PORT", "PODS", "SERVES", "ISSUER", "UNTIL", "SECRET", "VERIFIED BY", "PROBLEMS")}
	counts := map[probe.Kind]int{}
	for _, g := range status.GroupPorts(served) {
		counts[g.Serves] += g.Pods
		rows = append(rows, f.portRow(g))
	}
	if err := new(table).write(f.screen, rows...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f.out, "\n%s of ready pods behind Services: %d serve TLS, %d plaintext, %d gave no answer that was understood.%s\n",
		api.Count(len(served), "port"), counts[probe.TLS], counts[probe.Plaintext], len(served)-counts[probe.TLS]-counts[probe.Plaintext], rest)
	return err
}

func (f *verifyFlags) portRow(g status.PortGroup) []cell {
	serves := string(g.Serves)
	if g.TLS != nil {
		serves = g.TLS.Version
	} else if g.Cause != "" {
		serves += ": " + g.Cause
	}
	until := ""
	if g.NotAfter != nil {
		until = g.NotAfter.UTC().Format(time.DateOnly)
	}
	secret := g.SecretState
	if g.Secret != "" {
		secret = g.Secret + ": " + g.SecretState
	}
	if g.Serves != probe.TLS {
		secret = ""
	}
	how := good
	switch {
	case g.Has(f.any.failOn):
		how = bad
	case len(g.Problems) > 0:
		how = doubt
	}
	row := cells(g.Namespace, g.Workload, fmt.Sprint(g.Port), fmt.Sprint(g.Pods), serves, status.Dash(g.Issuer), status.Dash(until), status.Dash(secret), status.Dash(g.Trust))
	return append(row, cell{status.Dash(strings.Join(g.Problems, ",")), how})
}
