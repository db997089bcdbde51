package app

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// writeClientSummary writes a row for each client with something to do or to change by hand.
func writeClientSummary(s screen, clients []plan.Client) error {
	rows := [][]cell{cells("WAVE", "NAMESPACE", "CLIENT", "CONNECT", "BY HAND")}
	for _, c := range clients {
		if c.Wave == 0 && len(c.Left) == 0 {
			continue
		}
		wave := "-"
		if c.Wave > 0 {
			wave = strconv.Itoa(c.Wave)
		}
		var by []string
		for _, l := range c.Left {
			by = append(by, l.Service+": "+l.Why)
		}
		rows = append(rows, cells(wave, c.Namespace, c.Workload, cmp.Or(connects(c), "-"), cmp.Or(strings.Join(by, "; "), "-")))
	}
	if len(rows) == 1 {
		return nil
	}
	if err := writeLines(s, "\n"); err != nil {
		return err
	}
	return (&table{}).write(s, rows...)
}

// connects returns what is done for a client.
func connects(c plan.Client) string {
	if c.Connect == "" && c.RollOut {
		return "(roll out)"
	}
	return c.Connect
}

// moves returns how the reference of a program becomes TLS; empty for others.
func moves(r plan.Reference) string {
	switch r.Moves {
	case plan.MovesConnected:
		return "no change: the proxy makes this call"
	case plan.MovesConnect:
		return "no change: the proxy makes this call after the steps of the client"
	case plan.MovesByHand:
		return "by hand: " + r.ByHand
	}
	return ""
}

// eachClient returns the details of each client.
func eachClient(clients []plan.Client) string {
	var b strings.Builder
	line := func(format string, args ...any) { // always one line
		b.WriteString(api.Escape(fmt.Sprintf(format, args...)) + "\n")
	}
	for _, c := range clients {
		b.WriteString("\n")
		head := fmt.Sprintf("Client %s/%s", c.Namespace, c.Workload)
		if c.Wave > 0 {
			head += fmt.Sprintf(" (wave %d)", c.Wave)
		}
		line("%s", head)
		if c.ManagedBy != "" {
			line("  %s manages it: make the changes in its source", c.ManagedBy)
		}
		if c.Connect != "" {
			line("  annotation of its pod template: %s: %q", api.AnnotationConnect, c.Connect)
		}
		if len(c.Already) > 0 {
			line("  connects already: %s", strings.Join(c.Already, ", "))
		}
		for _, l := range c.Left {
			line("  by hand: %s: %s", l.Service, l.Why)
		}
		for _, n := range c.Notes {
			line("  note: %s", n)
		}
		writeSteps(line, c.Steps)
	}
	return b.String()
}

func writeSteps(line func(string, ...any), steps []plan.Step) {
	for i, step := range steps {
		if i == 0 {
			line("  steps:")
		}
		line("    %d. %s", i+1, step.What)
		if step.Command != "" {
			line("       %s", step.Command)
		}
		if step.Back != "" {
			line("       back: %s", step.Back)
		}
	}
}

// writeClientManifests writes the workloads that get the annotation, with it.
func writeClientManifests(std streams, clients []plan.Client) error {
	for _, c := range clients {
		complete := c.Complete()
		if c.Connect == "" || complete == nil {
			continue
		}
		text, err := marshalYAML(complete)
		if err != nil {
			return err
		}
		about := fmt.Sprintf("# wave %d: %s\n# Apply it only when these serve TLS, else its calls fail: %s\n", c.Wave, api.Escape(c.Namespace+"/"+c.Workload), api.Escape(strings.Join(c.Services, ", ")))
		if c.OptIn {
			about += "# once: " + api.Escape(c.Steps[0].Command) + "\n"
		}
		if _, err := fmt.Fprintf(std.manifests, "---\n%s%s", about, text); err != nil {
			return err
		}
	}
	return nil
}
