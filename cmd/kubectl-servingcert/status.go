package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// statusFlags are what status was asked.
type statusFlags struct {
	*plugin
	namespace, system, output string
	selector                  string
	all, watch, noHeaders     bool
	name                      string
}

var statusOutputs = outputs{"text", "wide", "json", "yaml", "name", jsonPath + "TEMPLATE"}

func (p *plugin) statusCommand() *cobra.Command {
	return verb{
		about: "Show the CA, which targets hold its bundle, and the certificates of Services. Exit code 1 if the CA cannot sign.",
		usage: "status [-n NAMESPACE | -A] [SERVICE] [flags]",
		examples: `# The CA, and the Services of the namespace.
kubectl servingcert status

# Why a Service has no certificate.
kubectl servingcert status web

# When the certificates of all Services end.
kubectl servingcert status -A -o jsonpath='{range .services[*]}{.namespace}/{.name} {.notAfter}{"\n"}{end}'`,
		outputs: statusOutputs,
		args:    atMostOne(p.live(services)),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := statusFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVarP(&f.all, "all-namespaces", "A", false, "the Services of all namespaces")
			fs.StringVarP(&f.selector, "selector", "l", "", "only Services with these labels, such as app=web,tier!=test")
			fs.StringVarP(&f.output, "output", "o", "text", statusOutputs.String())
			fs.BoolVar(&f.noHeaders, "no-headers", false, "only the rows of the Services: without the CA, the names of the columns, and remarks")
			fs.BoolVarP(&f.watch, "watch", "w", false, "go on with a row for each Service that changes")
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
	case f.all && *f.kube.Namespace != "":
		return usagef("-n and -A are mutually exclusive")
	case f.all && f.name != "":
		return usagef("-A and the name of a Service are mutually exclusive")
	}
	return validSelector(f.selector)
}

// oneService takes the name of a Service from arguments of which there is at most one.
func oneService(args []string, name *string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q: name at most one Service", args[1])
	}
	if len(args) == 1 {
		*name = serviceName(args[0])
	}
	return nil
}

// serviceName returns the name of a Service that is given as NAME, or as kubectl and
// -o name write it: service/NAME.
func serviceName(arg string) string {
	for _, kind := range []string{"service/", "services/", "svc/"} {
		if name, ok := strings.CutPrefix(arg, kind); ok {
			return name
		}
	}
	return arg
}

// validSelector returns what is wrong with a label selector.
func validSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return usagef("-l %q: %w", selector, err)
	}
	return nil
}

// report is what status shows.
type report struct {
	header
	CA       *judge.CAStatus    `json:"ca,omitempty"`    // nil: the user may not read it
	Trust    *judge.TrustStatus `json:"trust,omitempty"` // nil: the rotator has written none
	Services []judge.Service    `json:"services"`
	detailed bool               // one Service was asked for: with the messages of its conditions
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
	if r.CA != nil && r.CA.Problem != "" {
		return errReported
	}
	return nil
}

func (f *statusFlags) gather(ctx context.Context, c *cluster.Cluster) (*report, error) {
	r := &report{header: headerOf("Status"), detailed: f.name != ""}
	if err := f.gatherCA(ctx, c, r); err != nil {
		return nil, err
	}
	var err error
	if r.Services, err = c.SelectedServices(ctx, f.namespace, f.selector); err != nil {
		return nil, err
	}
	if f.name != "" {
		r.Services = slices.DeleteFunc(r.Services, func(s judge.Service) bool { return s.Name != f.name })
		if len(r.Services) == 0 {
			return nil, fmt.Errorf("namespace %q has no Service %q that asks for a certificate", f.namespace, f.name)
		}
	}
	if err := c.AddOptIn(ctx, r.Services); err != nil {
		return nil, err
	}
	if err := c.AddStale(ctx, f.system, r.Services); err != nil {
		return nil, err
	}
	return r, c.AddTimes(ctx, f.namespace, r.Services)
}

// gatherCA reads what the signer and the rotator report of the CA. Whoever may read only
// their own namespace sees their Services without it.
func (f *statusFlags) gatherCA(ctx context.Context, c *cluster.Cluster, r *report) error {
	cm, err := c.CAConfigMap(ctx, f.system)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	ca := judge.ParseCA(cm.Data)
	r.CA = &ca
	r.Trust, err = c.Trust(ctx, f.system)
	return err
}

func (f *statusFlags) write(r *report, columns *table, now time.Time) error {
	switch {
	case isData(f.output):
		return writeData(f.out, f.output, r)
	case f.output == "name":
		for _, s := range r.Services {
			if _, err := fmt.Fprintf(f.out, "service/%s\n", s.Name); err != nil {
				return err
			}
		}
		return nil
	case f.noHeaders:
		return columns.write(f.screen, f.rows(r.Services)...)
	}
	return f.writeText(r, columns, now)
}

func (f *statusFlags) writeText(r *report, columns *table, now time.Time) error {
	var lines [][]cell
	row := func(name, format string, args ...any) {
		lines = append(lines, []cell{{name, headings[name]}, {text: fmt.Sprintf(format, args...)}})
	}
	switch {
	case r.CA == nil:
		row("CA", "not shown: this user may not read ConfigMap %s/%s", f.system, api.CAStatusName)
	case r.Trust == nil:
		writeCA(*r.CA, row, now)
		row("Trust", "unknown: the rotator has not written a status")
	default:
		writeCA(*r.CA, row, now)
		writeTrust(*r.Trust, row, r.CA.BundleHash)
	}
	if err := new(table).write(f.screen, lines...); err != nil {
		return err
	}
	if len(r.Services) == 0 {
		_, _ = fmt.Fprintln(f.out, "\nNo Service asks for a certificate.")
	} else {
		_, _ = fmt.Fprintln(f.out)
		if err := columns.write(f.screen, append([][]cell{f.columns()}, f.rows(r.Services)...)...); err != nil {
			return err
		}
	}
	for _, line := range r.remarks() {
		if _, err := fmt.Fprintf(f.out, "\n%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// headings are the words above the table that are painted.
var headings = map[string]style{"Problem": bad, "Warning": doubt}

// remarks returns the paragraphs below the table.
func (r *report) remarks() []string {
	var text []string
	if !r.detailed {
		text = append(text, judge.Bounded(judge.Holds(r.Services)))
	} else {
		text = append(text, judge.Dash(r.Services[0].Message))
		if serving := r.Services[0].Serving; serving != nil {
			text = append(text, serving.Message, strings.Join(judge.StaleLines(serving.Stale), "\n"))
		}
	}
	text = append(text, judge.NotOptedIn(r.Services), judge.Doubt(r.Services))
	return slices.DeleteFunc(text, func(s string) bool { return s == "" })
}

func writeCA(s judge.CAStatus, row func(name, format string, args ...any), now time.Time) {
	if s.Generation == 0 {
		row("CA", "no generation signs")
	} else {
		row("CA", "generation %d signs, until %s", s.Generation, clock(s.NotAfter))
	}
	if s.Phase != "" {
		row("Phase", "%s, since %s%s", s.Phase, clock(s.Since), ago(s.Since, now))
	}
	if s.NextGeneration != 0 {
		row("", "generation %d is to sign next", s.NextGeneration)
	}
	if s.Why != "" {
		row("", "why: %s", s.Why)
	}
	if s.WaitingFor != "" {
		row("", "waiting for: %s", s.WaitingFor)
	}
	if s.Replaced != nil && s.Certificates != nil {
		row("", "%d of %d certificates are signed by generation %d", *s.Replaced, *s.Certificates, s.Generation)
	}
	if mode, reason, ok := strings.Cut(s.Rotation, ":"); ok {
		row("Rotation", "%q (%s): %s", reason, mode, s.RotationOutcome)
	}
	if s.Problem != "" {
		row("Problem", "%s", s.Problem)
	}
	for _, warning := range s.Warnings {
		row("Warning", "%s", warning)
	}
}

func writeTrust(t judge.TrustStatus, row func(name, format string, args ...any), published string) {
	row("Trust", "%d of %d targets hold the bundle, %d not yet, %d refuse it", t.Holding, t.Targets, t.Pending, t.Refusing)
	switch {
	case t.BundleHash == "":
		row("", "the rotator has no bundle")
	case t.BundleHash != published:
		row("", "these counts are of bundle %s, but the CA has published %s", judge.Short(t.BundleHash), judge.Short(published))
	default:
		row("", "bundle %s", judge.Short(t.BundleHash))
	}
	if t.Grace > 0 {
		row("", "of those that do not hold it, a new generation waits for a limited time for %d, in namespaces %s", t.Grace, t.GraceNamespaces)
	}
	if t.Late > 0 {
		row("", "of those that do not hold it, a new generation does not wait for %d, which requested it only after %s", t.Late, clock(t.Since))
	}
	for _, line := range t.NotHolding {
		row("", "%s", line)
	}
	if t.Problem != "" {
		row("Problem", "%s", t.Problem)
	}
}

func (f *statusFlags) columns() []cell {
	columns := cells("NAMESPACE", "SERVICE", "READY", "REASON", "SERVING", "SECRET", "LEAF", "NOT AFTER", "RENEW AT")
	if f.output == "wide" {
		columns = append(columns, cells("STALE", "MESSAGE")...)
	}
	return columns
}

func (f *statusFlags) rows(services []judge.Service) [][]cell {
	rows := make([][]cell, len(services))
	for i, s := range services {
		rows[i] = f.row(s)
	}
	return rows
}

// row is one Service. With -o wide, it has the whole fingerprint, the number of
// workloads that serve an older certificate, and the message of condition Ready.
func (f *statusFlags) row(s judge.Service) []cell {
	leaf := judge.Short(s.Leaf)
	if f.output == "wide" {
		leaf = s.Leaf
	}
	row := cells(s.Namespace, s.Name, judge.Dash(s.Ready), judge.Dash(s.ReasonColumn()), judge.Dash(s.Serving.Column()),
		judge.Dash(s.SecretColumn()), judge.Dash(leaf), clock(s.NotAfter), clock(s.RenewAt))
	row[2].how = statusStyles[s.Ready]
	if s.Serving != nil {
		row[4].how = statusStyles[s.Serving.Status]
	}
	if f.output != "wide" {
		return row
	}
	stale := "-"
	if s.Serving != nil && s.Serving.StaleUnknown == "" {
		stale = strconv.Itoa(len(s.Serving.Stale))
	}
	return append(row, cells(stale, judge.Dash(s.Message))...)
}

// statusStyles paint the status of a condition.
var statusStyles = map[string]style{"True": good, "False": bad, "Unknown": doubt}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func ago(t *time.Time, now time.Time) string {
	if t == nil || now.Before(*t) {
		return ""
	}
	return fmt.Sprintf(" (%s)", now.Sub(*t).Truncate(time.Second))
}
