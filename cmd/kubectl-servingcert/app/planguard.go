package app

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// writeGuardSummary writes a row for each Service whose list of clients changes, still watches, or needs a
// person.
func writeGuardSummary(s screen, services []plan.Service) error {
	rows := [][]cell{cells("WAVE", "NAMESPACE", "SERVICE", "LIST OF CLIENTS", "WHY NOT")}
	for _, svc := range services {
		g := svc.Guard
		if g == nil || g.Clients == "" && !g.Watches() && len(g.Refer) == 0 {
			continue
		}
		wave := "-"
		if g.Wave > 0 {
			wave = strconv.Itoa(g.Wave)
		}
		rows = append(rows, cells(wave, svc.Namespace, svc.Name, cmp.Or(g.Clients, "-"), cmp.Or(g.Why, "-")))
	}
	if len(rows) == 1 {
		return nil
	}
	if err := writeLines(s, "\n"); err != nil {
		return err
	}
	return (&table{}).write(s, rows...)
}

// writeGuardManifests writes the Services whose list of clients changes, with it.
func writeGuardManifests(std streams, services []plan.Service) error {
	for _, s := range services {
		complete := s.CompleteGuard()
		if complete == nil {
			continue
		}
		text, err := marshalYAML(complete)
		if err != nil {
			return err
		}
		about := "Apply it when its clients connect: it refuses nobody"
		if s.Guard.Refuses {
			about = "It refuses all clients that it does not list. Apply it only while this exits with 0: " + api.CommandText([]string{s.Namespace, s.Name}, "kubectl", "servingcert", "clients", s.Name, "-n", s.Namespace)
		}
		if _, err := fmt.Fprintf(std.manifests, "---\n# wave %d: %s\n# %s\n%s", s.Guard.Wave, api.Escape(s.Namespace+"/"+s.Name), api.Escape(about), text); err != nil {
			return err
		}
	}
	return nil
}
