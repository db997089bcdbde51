package plan

import (
	"fmt"
	"slices"
)

// Only returns the plan of the Services with these names, NAME or NAMESPACE/NAME; of all if there are no names. It
// returns an error if a Service is not found.
func (p Plan) Only(names []string) (Plan, error) {
	if len(names) == 0 {
		return p, nil
	}
	out := Plan{Services: []Service{}, Unread: p.Unread, Totals: Totals{Ways: map[Way]int{}}}
	found := map[string]bool{}
	for _, s := range p.Services {
		wanted := false
		for _, name := range []string{s.Name, s.Namespace + "/" + s.Name} {
			wanted = wanted || slices.Contains(names, name)
			found[name] = true
		}
		if wanted {
			out.Services = append(out.Services, s)
			out.Totals.add(s)
		}
	}
	for _, name := range names {
		if !found[name] {
			return Plan{}, fmt.Errorf("Service %q: not found", name)
		}
	}
	chosen := func(k key) bool {
		return slices.ContainsFunc(out.Services, func(s Service) bool { return s.Namespace == k.namespace && s.Name == k.name })
	}
	for _, c := range p.Clients {
		if c, calls := c.only(chosen); calls {
			out.Clients = append(out.Clients, c)
		}
	}
	return out, nil
}
