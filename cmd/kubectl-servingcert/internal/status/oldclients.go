package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// OldClients are the pods that may not hold the root of a generation of the CA, in the form of -o json: they mount
// the CA bundle, and were started before it had that root everywhere. Whether a program reads its bundle again nobody
// can see from outside, so all count that do not say so themselves, by annotation servingcert.dev/on-rotate: reload.
// Its texts are escaped (api.Escape).
type OldClients struct {
	Generation int `json:"generation"`
	// Since is from when on a container that starts is known to read the root.
	Since     time.Time `json:"since"`
	Pods      int       `json:"pods"`
	Workloads int       `json:"workloads"`
	First     []string  `json:"first"` // of the workloads, as workload.String has them, sorted
}

// maxOldClients is how many workloads are named of each generation.
const maxOldClients = 10

// String says who they are, in one line.
func (o OldClients) String() string {
	names := strings.Join(o.First, ", ")
	if o.Workloads > len(o.First) {
		names += ", …"
	}
	return fmt.Sprintf("%s of %s may not hold the root of generation %d, because they started before it was distributed: %s",
		Count(o.Pods, "pod"), Count(o.Workloads, "workload"), o.Generation, names)
}

// CountsClients reports whether some pods may hold an older bundle, so that their list is worth reading.
func CountsClients(ca api.CAStatus, now time.Time) bool { return len(followed(ca, now)) > 0 }

// CountOldClients counts for each generation, the oldest first, those of the consumers that may not hold its root.
// Generations whose root all hold are left out.
func CountOldClients(ca api.CAStatus, consumers []Consumer, now time.Time) []OldClients {
	var out []OldClients
	for _, g := range followed(ca, now) {
		o := OldClients{Generation: g.Number, Since: everywhere(g), First: []string{}}
		workloads := map[workload]bool{}
		for _, c := range consumers {
			if c.Bundle && !c.Reloads && !c.Started.IsZero() && c.Started.Before(o.Since) {
				o.Pods++
				workloads[c.workload()] = true
			}
		}
		for w := range workloads {
			o.First = append(o.First, api.Escape(w.String()))
		}
		if o.Workloads = len(o.First); o.Workloads == 0 {
			continue
		}
		slices.SortFunc(o.First, cmp.Compare[string])
		o.First = o.First[:min(len(o.First), maxOldClients)]
		out = append(out, o)
	}
	return out
}

// followed returns the generations whose root is everywhere and was not in the bundle with some other generation, the
// oldest first.
func followed(ca api.CAStatus, now time.Time) []api.CAGenerationRecord {
	var out []api.CAGenerationRecord
	for i, g := range ca.Generations {
		if i > 0 && !g.Retired && g.Root != ca.Generations[i-1].Root && !everywhere(g).IsZero() && !now.Before(everywhere(g)) {
			out = append(out, g)
		}
	}
	return out
}

// everywhere returns from when on a container that starts reads the root: every target held it, or it signed because
// there was no time to wait, and since then kubelets had the time to update all volumes, which a soak that is shorter
// says they do in less. It is zero if that is not so yet.
func everywhere(g api.CAGenerationRecord) time.Time {
	switch {
	case !g.TrustedAt.IsZero():
		if updated := g.TrustedAt.Add(api.KubeletUpdatesByName); g.SignsSince.IsZero() || updated.Before(g.SignsSince) {
			return updated
		}
		return g.SignsSince
	case !g.SignsSince.IsZero():
		return g.SignsSince.Add(api.KubeletUpdatesByName)
	}
	return time.Time{}
}
