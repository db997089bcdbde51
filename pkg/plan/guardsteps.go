package plan

import (
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// stepOfGuard adds the steps for the annotation.
func (s *Service) stepOfGuard() {
	g := s.Guard
	if g == nil {
		return
	}
	if g.Clients != "" {
		s.stepOfList()
	}
	from, to, left := g.extended()
	what := "add those to its list that called, or refer to it, and may do so; this adds all of them"
	if len(left) > 0 {
		s.step("these called, or refer to it, and its list has no room for them, or they are no entries: " + api.Listed(left, maxShown))
		what = "add those to its list that called, or refer to it, and may do so; this adds all others"
	}
	if len(to) == len(from) {
		return
	}
	var before []string
	if g.has || g.Clients != "" {
		before = from
	}
	s.annotateClients(what, before, to)
}

// stepOfList adds the steps for Clients.
func (s *Service) stepOfList() {
	g := s.Guard
	what := "list its clients: " + api.ClientsWatch + " admits all others too"
	switch {
	case g.Refuses:
		what = "take " + api.ClientsWatch + " out of the list of its clients: it refuses all others from then on"
	case len(g.After) > 0:
		what += ". Do this when the clients connect"
	}
	if strings.Contains(g.Clients+",", "/default,") {
		what += ". ServiceAccount default is that of all pods of a namespace which name no other"
	}
	s.annotateClients(what, g.entries, strings.Split(g.Clients, ", "))
	if !g.Refuses {
		s.command("see who calls, and whom the list would refuse", s.Name, "kubectl", "servingcert", "clients", s.Name, "-n", s.Namespace)
	}
}

// annotateClients adds a step that sets the list, and takes that back; before is nil if there is none.
func (s *Service) annotateClients(what string, before, list []string) {
	annotate := func(arg ...string) (string, bool) {
		return api.Command([]string{s.Namespace, s.Name}, append([]string{"kubectl", "annotate", "service", s.Name, "-n", s.Namespace}, arg...)...)
	}
	set, back := []string{api.AnnotationClients + "=" + strings.Join(list, ", ")}, []string{api.AnnotationClients + "-"}
	if before != nil {
		set, back = append(set, "--overwrite"), []string{api.AnnotationClients + "=" + strings.Join(before, ", "), "--overwrite"}
	}
	text, ok := annotate(set...)
	if !ok {
		s.step(what + " (" + text + ")")
		return
	}
	undo, _ := annotate(back...)
	s.Steps = append(s.Steps, Step{What: what, Command: text, Back: undo})
}

// extended returns the list with those that a person may add to it, and which of these it has no room for, or are no
// entries: pods may have invented them.
func (g *Guard) extended() (from, to, left []string) {
	switch {
	case g.Clients != "":
		from = strings.Split(g.Clients, ", ")
	case g.has:
		from = g.entries
	default:
		from = []string{api.ClientsWatch}
	}
	to = slices.Clone(from)
	more := slices.Concat(g.Called, g.Refer)
	slices.Sort(more)
	for _, id := range slices.Compact(more) {
		if strings.Contains(id, "*") || invalid(append(to, id)) != nil {
			left = append(left, id)
			continue
		}
		to = append(to, id)
	}
	return from, to, left
}
