package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
)

// statusFlags are what status was asked.
type statusFlags struct {
	*plugin
	namespace, system, output string
	all                       bool
	name                      string
}

func (p *plugin) statusCommand() *cobra.Command {
	return verb{
		about: "Show the CA, which targets hold its bundle, and the certificates of Services. Exit code 1 if the CA cannot sign.",
		usage: "status [-n NAMESPACE | -A] [SERVICE] [flags]",
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := statusFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVarP(&f.all, "all-namespaces", "A", false, "the Services of all namespaces")
			fs.StringVarP(&f.output, "output", "o", "text", "text, json or yaml")
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
	if len(args) > 1 {
		return usagef("unexpected argument %q: name at most one Service", args[1])
	}
	if len(args) == 1 {
		f.name = args[0]
	}
	switch {
	case !slices.Contains([]string{"text", "json", "yaml"}, f.output):
		return usagef("-o %q: must be text, json or yaml", f.output)
	case f.all && *f.kube.Namespace != "":
		return usagef("-n and -A are mutually exclusive")
	case f.all && f.name != "":
		return usagef("-A and the name of a Service are mutually exclusive")
	}
	return nil
}

// report is what status shows.
type report struct {
	CA       judge.CAStatus     `json:"ca"`
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
	if err := r.write(f.out, f.output, now); err != nil {
		return err
	}
	if r.CA.Problem != "" {
		return errReported
	}
	return nil
}

func (f *statusFlags) gather(ctx context.Context, c *cluster.Cluster) (*report, error) {
	cm, err := c.CAConfigMap(ctx, f.system)
	if err != nil {
		return nil, err
	}
	r := &report{CA: judge.ParseCA(cm.Data), detailed: f.name != ""}
	if r.Trust, err = c.Trust(ctx, f.system); err != nil {
		return nil, err
	}
	if r.Services, err = c.Services(ctx, f.namespace); err != nil {
		return nil, err
	}
	if f.name != "" {
		r.Services = slices.DeleteFunc(r.Services, func(s judge.Service) bool { return s.Name != f.name })
		if len(r.Services) == 0 {
			return nil, fmt.Errorf("namespace %q has no Service %q that asks for a certificate", f.namespace, f.name)
		}
	}
	if err := c.AddStale(ctx, f.system, r.Services); err != nil {
		return nil, err
	}
	return r, c.AddTimes(ctx, f.namespace, r.Services)
}

func (r *report) write(w io.Writer, output string, now time.Time) error {
	var (
		data []byte
		err  error
	)
	switch output {
	case "json":
		data, err = json.MarshalIndent(r, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(r)
	default:
		return r.writeText(w, now)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func (r *report) writeText(w io.Writer, now time.Time) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(tab, name+"\t"+format+"\n", args...) }
	writeCA(r.CA, row, now)
	if r.Trust == nil {
		row("Trust", "unknown: the rotator has not written a status")
	} else {
		writeTrust(*r.Trust, row, r.CA.BundleHash)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if err := writeServices(w, r.Services); err != nil {
		return err
	}
	for _, line := range r.remarks() {
		if _, err := fmt.Fprintf(w, "\n%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

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
	text = append(text, judge.Doubt(r.Services))
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

func writeServices(w io.Writer, services []judge.Service) error {
	if len(services) == 0 {
		_, err := fmt.Fprintln(w, "\nNo Service asks for a certificate.")
		return err
	}
	_, _ = fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "NAMESPACE\tSERVICE\tREADY\tREASON\tSERVING\tSECRET\tLEAF\tNOT AFTER\tRENEW AT")
	for _, s := range services {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name,
			judge.Dash(s.Ready), judge.Dash(s.Reason), judge.Dash(s.Serving.Column()), judge.Dash(s.SecretColumn()), judge.Dash(judge.Short(s.Leaf)), clock(s.NotAfter), clock(s.RenewAt))
	}
	return tab.Flush()
}

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
