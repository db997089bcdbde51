package apply

import (
	"maps"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// Wave is what is done together.
type Wave struct {
	Number   int
	Services []plan.Service
	Clients  []plan.Client
	// Guards are Services whose list of clients is set, when everything else is done.
	Guards []plan.Service
}

// Chosen returns the Services and the clients that Run changes, or whose pods it replaces, wave by wave. everywhere is
// [Skipped]'s.
func Chosen(p plan.Plan, everywhere bool) []Wave {
	waves := map[int]*Wave{}
	in := func(number int) *Wave {
		if waves[number] == nil {
			waves[number] = &Wave{Number: number}
		}
		return waves[number]
	}
	for _, s := range p.Services {
		if s.Wave > 0 && s.Way != plan.WayMove && s.ManagedBy == "" {
			w := in(s.Wave)
			w.Services = append(w.Services, s)
		}
	}
	for _, s := range p.Services {
		if s.Guard != nil && s.Guard.Wave > 0 && GuardSkipped(p, s, everywhere) == "" {
			w := in(s.Guard.Wave)
			w.Guards = append(w.Guards, s)
		}
	}
	for _, c := range p.Clients {
		if c.Wave > 0 && Skipped(p, c, everywhere) == "" {
			w := in(c.Wave)
			w.Clients = append(w.Clients, c)
		}
	}
	var out []Wave
	for _, number := range slices.Sorted(maps.Keys(waves)) {
		out = append(out, *waves[number])
	}
	return out
}

// Skipped returns why Run leaves the client alone; empty if it does not. Unless everywhere is true, clients are changed
// only in namespaces with a Service of the plan.
func Skipped(p plan.Plan, c plan.Client, everywhere bool) string {
	kind, _, _ := strings.Cut(c.Workload, "/")
	switch {
	case c.ManagedBy != "":
		return c.ManagedBy + " manages it: change its source (plan -o yaml)"
	case !api.Restartable(kind):
		return "replacing the pods of a " + kind + " is not supported: set the annotation yourself"
	case Outside(p, c, everywhere):
		return "it is in another namespace: annotate it yourself, or use -A"
	}
	return ""
}

// Outside reports whether the client is in a namespace in which the command changes nothing: one without a Service of the
// plan, unless everywhere is true.
func Outside(p plan.Plan, c plan.Client, everywhere bool) bool {
	return !everywhere && !slices.ContainsFunc(p.Services, func(s plan.Service) bool { return s.Namespace == c.Namespace })
}

// namespaces returns the namespaces of the Services and of the clients, each once.
func namespaces(waves ...Wave) (out []string) {
	for _, w := range waves {
		for _, s := range w.Services {
			out = append(out, s.Namespace)
		}
		for _, c := range w.Clients {
			out = append(out, c.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
