package app

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
	"github.com/servingcert/servingcert/pkg/plan/page"
)

func (f *planFlags) writePlan(p plan.Plan) error {
	switch {
	case f.format == "yaml":
		return writeServices(f.streams, p)
	case f.format == "html":
		return page.Write(f.manifests, p, f.title())
	case isData(f.format):
		return writeData(f.out, f.format, planData{headerOf("Plan"), p})
	case len(f.names) > 0:
		return writeEach(f.screen, p)
	}
	return writeSummary(f.screen, p)
}

// writeServices writes the Services that get additions, with these additions.
func writeServices(std streams, p plan.Plan) error {
	for _, u := range p.Unread {
		_, _ = fmt.Fprintf(std.err, "Warning: not read: %s\n", u)
	}
	for _, s := range p.Services {
		if s.Patch == nil {
			continue
		}
		text, err := marshalYAML(s.Complete())
		if err != nil {
			return err
		}
		about := fmt.Sprintf("# wave %d: %s\n", s.Wave, api.Escape(s.Namespace+"/"+s.Name))
		for _, step := range s.Steps {
			if strings.HasPrefix(step.Command, "kubectl label") {
				about += "# once: " + api.Escape(step.Command) + "\n"
			}
		}
		if _, err := fmt.Fprintf(std.manifests, "---\n%s%s", about, text); err != nil {
			return err
		}
	}
	if err := writeClientManifests(std, p.Clients); err != nil {
		return err
	}
	return writeGuardManifests(std, p.Services)
}

// writeSummary writes a row for each Service.
func writeSummary(s screen, p plan.Plan) error {
	rows := [][]cell{cells("WAVE", "NAMESPACE", "SERVICE", "WAY", "TODAY", "ADD", "TO MOVE", "WHY")}
	for _, svc := range p.Services {
		way := ways[svc.Way]
		wave := "-"
		if svc.Wave > 0 {
			wave = strconv.Itoa(svc.Wave)
		}
		row := cells(wave, svc.Namespace, svc.Name, way.text, cmp.Or(portsToday(svc), "-"), portsToAdd(svc), strconv.Itoa(svc.ToMove), cmp.Or(svc.Why, "-"))
		row[3].how = way.how
		rows = append(rows, row)
	}
	if len(p.Services) > 0 {
		if err := (&table{}).write(s, rows...); err != nil {
			return err
		}
	}
	var counts []string
	for _, way := range plan.Ways() {
		if n := p.Totals.Ways[way]; n > 0 {
			counts = append(counts, fmt.Sprintf("%s: %d", ways[way].text, n))
		}
	}
	if err := writeClientSummary(s, p.Clients); err != nil {
		return err
	}
	if err := writeGuardSummary(s, p.Services); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%s (%s), %s that plan can see to move", api.Count(p.Totals.Services, "Service"), strings.Join(counts, ", "), api.Count(p.Totals.References, "plaintext reference"))
	if n := p.Totals.Connect; n > 0 {
		text += fmt.Sprintf(", %d of them without a change of a program", n)
	}
	text += "\n"
	if p.Totals.References == 0 && slices.ContainsFunc(p.Services, keepsPlaintext) {
		text += "Plaintext ports stay, and calls that no object names may use them: kubectl servingcert clients SERVICE lists who does. Lists of clients are planned once the clients were restarted.\n"
	}
	if len(counts) == 0 {
		text = "no Service\n"
	}
	return writeLines(s, text+unread(p))
}

// keepsPlaintext reports whether a port of the Service accepts plaintext.
func keepsPlaintext(s plan.Service) bool {
	return slices.ContainsFunc(s.Ports, func(p plan.Port) bool { return p.Today == plan.TodayPlaintext || p.Today == plan.TodayAny })
}

// unread returns the objects that could not be read, and the missing permissions.
func unread(p plan.Plan) string {
	out := ""
	if len(p.Unread) > 0 {
		out = "\nNot read, so references may be missing:\n  " + strings.Join(p.Unread, "\n  ") + "\n"
	}
	if len(p.Forbidden) > 0 {
		out += "\nThis user lacks permissions that the steps need:\n  " + strings.Join(p.Forbidden, "\n  ") + "\n"
	}
	return out
}

func writeLines(s screen, text string) error {
	_, err := io.WriteString(s.to, api.EscapeLines(text))
	return err
}

// writeEach writes the details of each Service.
func writeEach(s screen, p plan.Plan) error {
	for i, svc := range p.Services {
		head := fmt.Sprintf("Service %s/%s: %s", svc.Namespace, svc.Name, ways[svc.Way].text)
		if svc.Wave > 0 {
			head += fmt.Sprintf(" (wave %d)", svc.Wave)
		}
		if svc.Guard != nil && svc.Guard.Wave > 0 {
			head += fmt.Sprintf("; list its clients (wave %d)", svc.Guard.Wave)
		}
		if i > 0 {
			head = "\n" + head
		}
		var b strings.Builder
		b.WriteString(head + "\n")
		line := func(format string, args ...any) { // always one line
			b.WriteString(api.Escape(fmt.Sprintf(format, args...)) + "\n")
		}
		if svc.Why != "" {
			line("  %s", svc.Why)
		}
		if svc.ManagedBy != "" {
			line("  %s manages it: make the changes in its source", svc.ManagedBy)
		}
		if len(svc.Workloads) > 0 {
			line("  workloads: %s", strings.Join(svc.Workloads, ", "))
		}
		for _, port := range svc.Ports {
			writePort(line, port)
		}
		for i, r := range svc.References {
			if i == 0 {
				line("  references:")
			}
			line("    %s", referenceLine(r))
			for _, change := range r.Change {
				line("               to change: annotation %s", change)
			}
			if text := moves(r); text != "" {
				line("               %s", text)
			}
		}
		if svc.MoreReferences > 0 {
			line("    and %d more", svc.MoreReferences)
		}
		if svc.Guard != nil && svc.Guard.Why != "" {
			line("  annotation %s stays as it is: %s", api.AnnotationClients, svc.Guard.Why)
		}
		writeSteps(line, svc.Steps)
		if err := writeLines(s, b.String()); err != nil {
			return err
		}
	}
	return writeLines(s, eachClient(p.Clients)+unread(p))
}

func writePort(line func(string, ...any), p plan.Port) {
	text := fmt.Sprintf("  port %d", p.Port)
	if p.Name != "" {
		text += " " + p.Name
	}
	text += " to " + p.Target + ": " + string(p.Today)
	if p.By != "" {
		text += " (" + p.By + ")"
	}
	switch {
	case p.Beside != 0:
		text += fmt.Sprintf("; TLS for it is on port %d", p.Beside)
	case p.Proxy != "":
		text += "; to add: targetPort " + p.Proxy
	case p.ProxyNot != "":
		text += "; no proxy: " + p.ProxyNot
	}
	line("%s", text)
	for _, n := range p.Notes {
		line("    note: %s", n)
	}
	if p.Native == nil {
		return
	}
	possible := "not without changes"
	if p.Native.Possible {
		possible = "possible"
	}
	line("    by the program itself: %s: %s", possible, p.Native.Detail)
	for _, who := range p.Native.Breaks {
		line("    this would break: %s", who)
	}
}

func referenceLine(r plan.Reference) string {
	who := r.Name
	if r.Namespace != "" {
		who = r.Namespace + "/" + who
	}
	speaks := string(r.Speaks)
	if r.Via.Stays() {
		speaks = "stays"
	}
	text := fmt.Sprintf("%-9s  %s %s, %s", speaks, r.Kind, who, r.Where)
	if r.Address != "" {
		text += ": " + r.Address
	}
	if len(r.UsedBy) > 0 {
		text += " (used by " + strings.Join(r.UsedBy, ", ") + ")"
	}
	return text
}
