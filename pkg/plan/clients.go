package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// made is a reference of a workload to a Service.
type made struct {
	port  int32  // of the Service; 0 if it is unknown
	host  string // as the program gives it
	wants bool   // it is not in TLS, as far as is known
	own   string // how it speaks TLS in a way that a proxy would break; empty for others
}

// calls returns the calls of each workload to each Service, by the workload's id.
func (a after) calls() map[string]map[key][]made {
	out := map[string]map[key][]made{}
	for k, s := range a.plans {
		for _, r := range s.References {
			for _, id := range r.programs() {
				if out[id] == nil {
					out[id] = map[key][]made{}
				}
				out[id][k] = append(out[id][k], made{r.Port, r.host(), s.wants(r), s.ownTLS(r)})
			}
		}
	}
	return out
}

// ownTLS returns how a program speaks TLS itself where a proxy would put TLS around it, or pass it on to another port;
// empty if it does not.
func (s *Service) ownTLS(r Reference) string {
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == r.Port })
	switch {
	case r.Speaks != SpeaksTLS:
	case strings.HasPrefix(r.Address, "postgres"):
		return "its programs request TLS within the protocol"
	case i >= 0 && s.Ports[i].Today == TodayPlaintext:
		return fmt.Sprintf("its programs speak TLS to port %d, where the plan sees plaintext: find out first which is right", r.Port)
	}
	return ""
}

// programs returns the ids of the workloads whose programs have the reference; nil if it is none of a program.
func (r Reference) programs() (ids []string) {
	switch r.Via {
	case ViaEnv, ViaArgs:
		return []string{r.Namespace + " " + r.Kind + "/" + r.Name}
	case ViaConfigMap:
		for _, w := range r.UsedBy {
			ids = append(ids, r.Namespace+" "+w)
		}
	}
	return ids
}

// ofProgram reports whether programs read the reference, and can thus call through a proxy.
func (r Reference) ofProgram() bool {
	return r.Via == ViaEnv || r.Via == ViaArgs || r.Via == ViaConfigMap
}

// host returns the host of the address, in lower case.
func (r Reference) host() string {
	host := r.Address
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(host)
}

// missing returns the port that the address has, and the Service does not; 0 if there is none.
func (r Reference) missing() int32 {
	if r.Port != 0 {
		return 0
	}
	var port int32
	eachAddress(r.Address, func(a address) { port = cmp.Or(a.port, protocolOf(a.scheme).port) })
	return port
}

// wants reports whether the reference is one that should become TLS: to a port that serves it after the plan.
func (s *Service) wants(r Reference) bool {
	if r.Speaks == SpeaksTLS || !r.ofProgram() || r.missing() != 0 {
		return false
	}
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Port == r.Port })
	if i < 0 {
		return true
	}
	switch p := s.Ports[i]; p.Today {
	case TodayPlaintext:
		return p.ProxyNot == ""
	case TodayAny:
		return true
	case TodayUnknown:
		return false
	}
	return r.Speaks == SpeaksPlaintext
}

// clients decides which workloads call Services through their proxies, fills that in at the references, and returns the
// workloads. waves are those of the Services.
func (a after) clients() []Client {
	outcomes := map[string]map[key]outcome{}
	var out []Client
	calls := a.calls()
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		d := a.decide(id, calls[id])
		if d == nil {
			continue
		}
		outcomes[id] = d.outcomes
		out = append(out, d.client)
	}
	for _, s := range a.plans {
		for i := range s.References {
			switch r := &s.References[i]; {
			case s.wants(*r):
				r.move(key{s.Namespace, s.Name}, outcomes)
			case s.counts(*r) && r.ofProgram():
				r.Moves, r.ByHand = MovesByHand, fmt.Sprintf("the Service has no port %d", r.missing())
			}
		}
		s.count()
	}
	slices.SortFunc(out, compareClients)
	return out
}

// Moves is how a plaintext reference of a program becomes TLS.
type Moves string

// The values of Moves.
const (
	MovesConnected Moves = "connected" // the workload's proxy makes the call already
	MovesConnect   Moves = "connect"   // the proxy makes it after the steps of Client
	MovesByHand    Moves = "by hand"   // the program has to be given another address
)

// outcome is how the calls of a workload to a Service move.
type outcome struct {
	moves Moves
	why   string
	names []string // by which the Service is called through the proxy
}

// move fills in how the reference moves.
func (r *Reference) move(k key, outcomes map[string]map[key]outcome) {
	ids := r.programs()
	switch {
	case len(ids) == 0:
		r.Moves, r.ByHand = MovesByHand, "no known workload uses the ConfigMap"
		return
	case len(ids) == maxUsers && r.Via == ViaConfigMap:
		r.Moves, r.ByHand = MovesByHand, "more workloads may use the ConfigMap than are listed"
		return
	}
	r.Moves = MovesConnected
	for _, id := range ids {
		v := outcomes[id][k]
		_, workload, _ := strings.Cut(id, " ")
		switch {
		case v.moves == MovesByHand || v.moves == "":
			r.Moves, r.ByHand = MovesByHand, workload+": "+v.why
			return
		case !slices.Contains(v.names, r.host()):
			r.Moves, r.ByHand = MovesByHand, fmt.Sprintf("%s: the hosts file of a pod has no name %s", workload, cmp.Or(r.host(), "of the Service"))
			return
		case v.moves == MovesConnect:
			r.Moves = MovesConnect
		}
	}
}

// count corrects the number of references that have to move, and counts those that need no change of a program.
func (s *Service) count() {
	s.Connect = 0
	for _, r := range s.References {
		switch {
		case !s.counts(r):
		case r.Moves == MovesConnected:
			s.ToMove--
		case r.Moves == MovesConnect:
			s.Connect++
			s.Programs++
		case r.ofProgram():
			s.Programs++
		}
	}
}
