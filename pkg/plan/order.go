package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// graph is the call graph of Services, through the workloads behind them.
type graph struct {
	behind map[string][]key        // the Services of a workload: NAMESPACE KIND/NAME
	refers map[key]map[string]bool // the workloads that refer to a Service
}

func newGraph() graph { return graph{map[string][]key{}, map[key]map[string]bool{}} }

func (g graph) add(k key, s Service, workloads []Workload) {
	for _, w := range workloads {
		id := w.Namespace + " " + w.String()
		g.behind[id] = append(g.behind[id], k)
	}
	if !s.todo() {
		return
	}
	callers := map[string]bool{}
	for _, r := range s.References {
		if r.Via == ViaEnv || r.Via == ViaArgs {
			callers[r.Namespace+" "+r.Kind+"/"+r.Name] = true
		}
		for _, w := range r.UsedBy {
			callers[r.Namespace+" "+w] = true
		}
	}
	g.refers[k] = callers
}

// order numbers the waves. A Service waits for those that its workloads call. In a cycle, the Service
// that waits for the fewest goes first.
func (g graph) order(services []Service) {
	waits := map[key]map[key]bool{}
	for i := range services {
		if s := &services[i]; s.todo() {
			waits[key{s.Namespace, s.Name}] = map[key]bool{}
		}
	}
	blocks := map[key][]key{}
	for callee, callers := range g.refers {
		for w := range callers {
			for _, caller := range g.behind[w] {
				if waits[caller] != nil && caller != callee && !waits[caller][callee] {
					waits[caller][callee] = true
					blocks[callee] = append(blocks[callee], caller)
				}
			}
		}
	}
	waves := map[key]int{}
	for wave := 1; len(waits) > 0; wave++ {
		for _, k := range next(waits) {
			waves[k] = wave
			delete(waits, k)
			for _, caller := range blocks[k] {
				delete(waits[caller], k)
			}
		}
	}
	for i := range services {
		services[i].Wave = waves[key{services[i].Namespace, services[i].Name}]
	}
}

// next returns the Services that wait for no other, or else the one that waits for the fewest.
func next(waits map[key]map[key]bool) []key {
	var free []key
	var first key
	for k, waiting := range waits {
		if len(waiting) == 0 {
			free = append(free, k)
		}
		if first == (key{}) || cmp.Or(cmp.Compare(len(waiting), len(waits[first])), compareKeys(k, first)) < 0 {
			first = k
		}
	}
	if len(free) == 0 {
		return []key{first}
	}
	return free
}

// todo reports whether the Service needs a change whose order matters.
func (s *Service) todo() bool { return s.Way != WayDone && s.Way != WayNone && s.Way != WayCheck }

// steps fills in the manual steps. labelled is true if the namespace is known to be opted in.
func (s *Service) steps(labelled bool) {
	if s.Patch != nil || s.Way == WayRollout || s.Way == WayCheck && s.Secret != "" && !labelled && !slices.ContainsFunc(s.Ports, refused) {
		s.stepsOfServer(labelled)
	}
	for _, p := range s.Ports {
		if s.Way == WayCheck && p.Today == TodayDeclared {
			s.command(fmt.Sprintf("check whether port %d serves TLS: run openssl s_client -connect localhost:8443 while this command runs", p.Port), s.Name,
				"kubectl", "port-forward", "service/"+s.Name, fmt.Sprintf("8443:%d", p.Port), "-n", s.Namespace)
		}
	}
	if s.Way == WayPort || s.Way == WayMove {
		s.stepsOfClients()
	}
	s.stepOfGuard()
}

// step adds a step without a command.
func (s *Service) step(what string) { s.Steps = append(s.Steps, Step{What: what}) }

// command adds a step with a command, or without it if a name is not safe in a shell.
func (s *Service) command(what, name string, command ...string) {
	text, ok := api.Command([]string{s.Namespace, name}, command...)
	if !ok {
		what, text = what+" ("+text+")", ""
	}
	s.Steps = append(s.Steps, Step{What: what, Command: text})
}

// stepsOfServer adds the steps after which the pods serve TLS.
func (s *Service) stepsOfServer(labelled bool) {
	if s.OptIn = !labelled; !labelled {
		s.command("opt the namespace in, once", s.Namespace, "kubectl", "label", "namespace", s.Namespace, api.LabelInject+"="+api.InjectEnabled)
	}
	if s.Patch != nil {
		what := "annotate the Service"
		if s.Patch.Spec != nil {
			what = "add the port " + s.Patch.Added()
		}
		s.command(what, s.Name, "kubectl", "patch", "service", s.Name, "-n", s.Namespace, "-p", s.Patch.merge())
	}
	for _, w := range s.Workloads {
		if slices.Contains(s.Without, w) {
			continue
		}
		kind, name, _ := strings.Cut(w, "/")
		if api.Restartable(kind) {
			s.command("roll out "+w, name, "kubectl", "rollout", "restart", strings.ToLower(kind)+"/"+name, "-n", s.Namespace)
		} else {
			s.step("replace the pods of " + w)
		}
	}
}

// stepsOfClients adds the steps after that, until no client uses plaintext.
func (s *Service) stepsOfClients() {
	if s.Connect > 0 {
		s.step("let the proxies of clients make the calls of " + api.Count(s.Connect, "plaintext reference") + ": see the clients")
	}
	if n := s.ToMove - s.Connect; n > 0 {
		s.step("move " + api.Count(n, "plaintext reference") + " to " + s.securely())
	}
	if n := s.unclear(); n > 0 {
		s.step("check " + api.Count(n, "address") + " with an unknown protocol")
	}
	if s.Way == WayMove && s.notCurrent() != "" {
		s.command("find out why the rotator has not seen TLS: "+s.notCurrent(), s.Name, "kubectl", "servingcert", "status", s.Name, "-n", s.Namespace)
	}
	const page = api.Documentation + "tls-beside-plaintext.md"
	if !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Today == TodayAny }) {
		s.step("let plaintext pass through the proxy too (" + page + "#5-move-the-clients-and-see-who-has-not)")
	}
	s.command("list the clients that still use plaintext, including those that are not listed here", s.Name, "kubectl", "servingcert", "clients", s.Name, "-n", s.Namespace)
	if slices.ContainsFunc(s.References, func(r Reference) bool { return r.Moves == MovesConnect || r.Moves == MovesConnected }) {
		s.step("when no client uses plaintext any more, let the plaintext port lead to the proxy, and keep its number: clients that connect through a proxy call it (" + api.Documentation + "connect.md)")
		return
	}
	s.step("remove plaintext when no client uses it any more (" + page + "#6-take-plaintext-away)")
}

// securely returns the addresses with TLS.
func (s *Service) securely() string {
	var out []string
	for _, p := range s.Ports {
		if asked, ok := api.ParseProxyPort(p.Target); ok && asked.Name() == p.Target {
			out = append(out, fmt.Sprintf("%s.%s.svc:%d", s.Name, s.Namespace, p.Port))
		}
	}
	if s.Patch != nil && s.Patch.Spec != nil {
		for _, p := range s.Patch.Spec.Ports {
			if _, ok := api.ParseProxyPort(fmt.Sprint(p.TargetPort)); ok {
				out = append(out, fmt.Sprintf("%s.%s.svc:%d", s.Name, s.Namespace, p.Port))
			}
		}
	}
	return strings.Join(out, ", ")
}

// unclear counts the references with an unknown protocol.
func (s *Service) unclear() (n int) {
	for _, r := range s.References {
		if r.Speaks == SpeaksUnknown && r.Moves != MovesConnect && r.Moves != MovesConnected {
			n++
		}
	}
	return n
}

// Added lists the ports that the patch adds: NUMBER to TARGETPORT.
func (p *Patch) Added() string {
	var out []string
	for _, port := range p.Spec.Ports {
		if name, ok := port.TargetPort.(string); ok {
			if _, ok := api.ParseProxyPort(name); ok {
				out = append(out, fmt.Sprintf("%d to %s", port.Port, name))
			}
		}
	}
	return strings.Join(out, ", ")
}
