package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// OldClients counts the pods that may not hold the root of a CA generation, in the form of -o json. A container
// that mounts the CA bundle started before the root was distributed, and still runs. Whether a program reloads its bundle cannot be observed, so
// all count except those with annotation servingcert.dev/on-rotate: reload. Its texts are escaped (api.Escape).
type OldClients struct {
	Generation int `json:"generation"`
	// Since is the time from which containers that start read the root.
	Since     time.Time `json:"since"`
	Pods      int       `json:"pods"`
	Workloads int       `json:"workloads"`
	First     []string  `json:"first"` // workloads, as in workload.String, sorted
}

// maxOldClients is the maximum number of named workloads for each generation.
const maxOldClients = 10

// String returns a line with the counts and the names.
func (o OldClients) String() string {
	names := strings.Join(o.First, ", ")
	if o.Workloads > len(o.First) {
		names += ", …"
	}
	return fmt.Sprintf("%s of %s may not hold the root of generation %d, because they started before it was distributed: %s",
		api.Count(o.Pods, "pod"), api.Count(o.Workloads, "workload"), o.Generation, names)
}

// CountsClients reports whether some pods may hold an older bundle, so the pods must be listed.
func CountsClients(ca api.CAStatus, now time.Time) bool { return len(followed(ca, now)) > 0 }

// CountOldClients counts, for each generation from the oldest on, the consumers that may not hold its root.
// Generations whose root all consumers hold are left out.
func CountOldClients(ca api.CAStatus, consumers []Consumer, now time.Time) []OldClients {
	var out []OldClients
	for _, g := range followed(ca, now) {
		o := OldClients{Generation: g.Number, Since: distributed(g), First: []string{}}
		workloads := map[workload]bool{}
		for _, c := range consumers {
			if c.Bundle && !c.Reloads && !c.BundleStarted.IsZero() && c.BundleStarted.Before(o.Since) {
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

// followed returns the generations whose root is distributed and differs from the root of the generation before,
// oldest first.
func followed(ca api.CAStatus, now time.Time) []api.CAGenerationRecord {
	var out []api.CAGenerationRecord
	for i, g := range ca.Generations {
		if i > 0 && !g.Retired && g.Root != ca.Generations[i-1].Root && !distributed(g).IsZero() && !now.Before(distributed(g)) {
			out = append(out, g)
		}
	}
	return out
}

// distributed returns the time from which containers that start read the root: once every target held it, or once the
// generation signed without waiting for that, plus the time in which kubelets update all volumes. A shorter soak
// shortens that time. It is zero until then.
func distributed(g api.CAGenerationRecord) time.Time {
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
