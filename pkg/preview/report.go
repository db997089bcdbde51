package preview

import "github.com/servingcert/servingcert/pkg/api"

// Row is a line of the report.
type Row struct{ Namespace, Workload, Container, Secret, Done, Why string }

// NotLookedInto explains Outcome.NotLookedInto.
const NotLookedInto = "these containers are not in a pod template; preview the pods that are created from them"

// Rows returns a row for each injected container, for each note, and for each workload
// without injection, with the reason.
func Rows(outcomes []Outcome) []Row {
	var rows []Row
	for _, o := range outcomes {
		row := Row{Namespace: o.Namespace, Workload: o.Workload(), Container: "-", Secret: "-", Done: "nothing", Why: "-"}
		switch {
		case o.Problem != nil:
			row.Done, row.Why = "error", o.Document+": "+oneLine(o.Problem)
			rows = append(rows, row)
			continue
		case o.NotLookedInto:
			row.Why = "NotLookedInto: " + NotLookedInto
			rows = append(rows, row)
			continue
		case o.Refused != nil:
			row.Done, row.Why = "refused", o.Refused.Error()
			rows = append(rows, row)
			continue
		case o.OptedOut != "":
			row.Why = o.OptedOut
			rows = append(rows, row)
			continue
		}
		switch {
		case o.Report.PodKey:
			row.Secret = "(" + string(api.KeySourcePod) + ")"
		case o.Report.Secret != "":
			row.Secret = o.Report.Secret
		}
		for _, c := range o.Report.Containers {
			r := row
			r.Container, r.Done = c.Name, c.Parts()
			rows = append(rows, r)
		}
		if len(o.Report.Containers) == 0 && len(o.Report.Notes) == 0 {
			row.Why = string(o.Report.Reason) + ": " + o.Report.Explain()
			rows = append(rows, row)
		}
		for _, n := range o.Report.Notes {
			r := row
			r.Done, r.Why = "note", string(n.Reason)+": "+n.String()
			if len(o.Report.Containers) == 0 {
				r.Done = "nothing"
			}
			rows = append(rows, r)
		}
	}
	return rows
}
