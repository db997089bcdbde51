package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

func (f *statusFlags) write(r *report, columns *table, now time.Time) error {
	f.guarded = slices.ContainsFunc(r.Services, func(s status.Service) bool { return s.Guarded != nil })
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
	if r.Identities != nil {
		writeCA(r.Identities.CA, func(name, format string, args ...any) {
			if name == "CA" {
				name = "Client CA"
			}
			row(name, format, args...)
		}, now)
		row("Trust", "%s", r.Identities.Trust())
	}
	writeProcesses(r.Processes, row)
	for _, o := range r.Clients {
		row("Clients", "%s", o)
	}
	if r.ClientsNotSeen != "" {
		row("Not seen", "%s", r.ClientsNotSeen)
	}
	if err := new(table).write(f.screen, lines...); err != nil {
		return err
	}
	if len(r.Services) == 0 {
		where := "."
		if f.namespace != "" {
			where = fmt.Sprintf(" in namespace %q; use -A to show all namespaces.", f.namespace)
		}
		_, _ = fmt.Fprintln(f.out, "\nNo Service requests a certificate"+where)
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

// headings are the coloured headings of the remarks.
var headings = map[string]style{"Problem": bad, "Warning": doubt, "Clients": doubt, "Not seen": doubt}

// remarks returns the paragraphs below the table.
func (r *report) remarks() []string {
	var text []string
	if r.detailed {
		text = append(text, status.Dash(r.Services[0].Message), r.Services[0].ByProxy())
		if serving := r.Services[0].Serving; serving != nil {
			text = append(text, serving.Message)
		}
		if guarded := r.Services[0].Guarded; guarded != nil {
			text = append(text, guarded.Message)
		}
		text = append(text, r.Services[0].PodsFail(), r.Services[0].OldConnections())
	}
	text = append(text, status.NotOptedIn(r.Services))
	return slices.DeleteFunc(text, func(s string) bool { return s == "" })
}

// writeProcesses writes the state of servingcert's processes.
func writeProcesses(all []doctor.Process, row func(name, format string, args ...any)) {
	var run []string
	notSeen, why := map[string][]string{}, []string(nil) // by reason
	for _, p := range all {
		switch p.State {
		case doctor.ProcessRuns:
			run = append(run, p.Name)
		case doctor.ProcessAway:
			row("Problem", "%s", p)
		case doctor.ProcessNotSeen:
			if notSeen[p.Why] == nil {
				why = append(why, p.Why)
			}
			notSeen[p.Why] = append(notSeen[p.Why], p.Name)
		}
	}
	if len(run) > 0 {
		row("Running", "%s", strings.Join(run, ", "))
	}
	for _, reason := range why {
		row("Not seen", "%s: %s", strings.Join(notSeen[reason], ", "), reason)
	}
}

func writeCA(s status.CA, row func(name, format string, args ...any), now time.Time) {
	if s.Generation == 0 {
		row("CA", "no generation signs")
	} else {
		row("CA", "generation %d signs, until %s", s.Generation, clock(s.NotAfter))
	}
	if s.Phase != "" {
		row("Phase", "%s, since %s%s", s.Phase, clock(s.Since), ago(s.Since, now))
	}
	if others := s.Others(); len(others) > 0 {
		for _, line := range others {
			row("", "%s", line)
		}
	} else if s.NextGeneration != 0 {
		row("", "generation %d signs next", s.NextGeneration)
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

func writeTrust(t status.Trust, row func(name, format string, args ...any), published string) {
	row("Trust", "%d of %d targets hold the bundle, %d not yet, %d refuse it", t.Holding, t.Targets, t.Pending, t.Refusing)
	switch {
	case t.BundleHash == "":
		row("", "the rotator has no bundle")
	case t.BundleHash != published:
		row("", "these counts are of bundle %s, but the CA has published %s", status.Short(t.BundleHash), status.Short(published))
	default:
		row("", "bundle %s", status.Short(t.BundleHash))
	}
	if t.Grace > 0 {
		row("", "a new generation waits only for a limited time for %d of the others, in namespaces %s", t.Grace, t.GraceNamespaces)
	}
	if t.Late > 0 {
		row("", "a new generation does not wait for %d of the others, which requested the bundle after %s", t.Late, clock(t.Since))
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
	if f.guarded {
		columns = slices.Insert(columns, 5, cells("GUARDED")...)
	}
	if f.output == "wide" {
		columns = append(columns, cells("STALE", "MESSAGE")...)
	}
	return columns
}

func (f *statusFlags) rows(services []status.Service) [][]cell {
	rows := make([][]cell, len(services))
	for i, s := range services {
		rows[i] = f.row(s)
	}
	return rows
}

// row returns the row of a Service. With -o wide, it has the complete fingerprint, the number of stale
// workloads, and the message of condition Ready.
func (f *statusFlags) row(s status.Service) []cell {
	leaf := status.Short(s.Leaf)
	if f.output == "wide" {
		leaf = s.Leaf
	}
	row := cells(s.Namespace, s.Name, status.Dash(s.Ready), status.Dash(s.ReasonColumn()), status.Dash(s.Serving.Column()),
		status.Dash(s.SecretColumn()), status.Dash(leaf), clock(s.NotAfter), clock(s.RenewAt))
	row[2].how = statusStyles[s.Ready]
	if s.Serving != nil {
		row[4].how = statusStyles[s.Serving.Status]
		if s.Serving.Outdated {
			row[4].how = doubt
		}
	}
	if f.guarded {
		guarded := cell{text: status.Dash(s.Guarded.Column())}
		if s.Guarded != nil {
			guarded.how = statusStyles[s.Guarded.Status]
		}
		row = slices.Insert(row, 5, guarded)
	}
	if f.output != "wide" {
		return row
	}
	stale := "-"
	if s.Serving != nil {
		stale = strconv.Itoa(len(s.Serving.Stale))
	}
	return append(row, cells(stale, status.Dash(s.Message))...)
}

// statusStyles are the styles of a condition's status.
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
