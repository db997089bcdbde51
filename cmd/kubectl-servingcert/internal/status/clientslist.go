package status

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/proxy"
)

// ClientsList is annotation servingcert.dev/clients of the Service.
type ClientsList struct {
	Entries []ClientsEntry `json:"entries"`
	// Since is the beginning of the time in which Entries were used: that of the window, or from which all proxies have
	// recorded the callers of each port. Absent if it is unknown whether they were used: NotSeen is why.
	Since   *time.Time `json:"since,omitempty"`
	NotSeen string     `json:"notSeen,omitempty"`
	// Invalid is what is wrong with the annotation, so that it admits nobody.
	Invalid string `json:"invalid,omitempty"`
}

// ClientsEntry is an entry other than watch.
type ClientsEntry struct {
	Entry string `json:"entry"`
	// Last is when a client that it names was last seen; absent if none was.
	Last *time.Time `json:"last,omitempty"`
	// Unused is true if no such client was seen since ClientsList.Since.
	Unused bool `json:"unused"`
}

// Unused returns the entries that no client used.
func (l *ClientsList) Unused() (out []string) {
	for _, e := range l.Entries {
		if e.Unused {
			out = append(out, e.Entry)
		}
	}
	return out
}

// list returns the use of the entries of the Service's list; nil if it has none. ports are its guarded ports.
func (k ClientsSituation) list(ports []CallersPort, now time.Time) *ClientsList {
	if !k.guarded() {
		return nil
	}
	entries, _, err := api.Clients(k.Object)
	out := &ClientsList{Entries: []ClientsEntry{}}
	if err != nil {
		out.Invalid = api.Escape(err.Error())
		return out
	}
	oldest := now.Add(-k.Window)
	if out.NotSeen = k.notSeen(ports, oldest); out.NotSeen == "" {
		out.Since = &oldest
		for _, p := range ports {
			out.Since = later(out.Since, *p.Since)
		}
	}
	seen := k.admitted()
	for _, entry := range entries {
		if entry == api.ClientsWatch {
			continue
		}
		e := ClientsEntry{Entry: entry, Last: lastOf(entry, seen)}
		e.Unused = out.Since != nil && !isAfter(e.Last, *out.Since)
		out.Entries = append(out.Entries, e)
	}
	return out
}

// notSeen returns why it is unknown which entries were used since a time; empty if it is known.
func (k ClientsSituation) notSeen(ports []CallersPort, oldest time.Time) string {
	if k.unanswered() {
		return "not all pods of the Service have answered"
	}
	for _, p := range ports {
		switch {
		case p.Pods == 0:
			return "no pod records the callers of " + p.Name
		case p.Unguarded > 0:
			return "not all pods record the callers of " + p.Name
		case isAfter(p.EvictedLast, oldest):
			return "the proxies no longer list all callers of " + p.Name
		}
	}
	return ""
}

// admitted returns when each identity was last seen that had an admitted connection to a port of the Service.
func (k ClientsSituation) admitted() map[proxy.Caller]time.Time {
	seen := map[proxy.Caller]time.Time{}
	for _, pod := range k.Pods {
		for _, answer := range pod.Guarded {
			for _, c := range answer.Callers {
				if c.Without == "" && c.Connections > 0 && slices.Contains(k.Ports, answer.Name) && c.Last.After(seen[c.Caller]) {
					seen[c.Caller] = c.Last
				}
			}
		}
	}
	return seen
}

// lastOf returns when a client that the entry names was last seen; nil if none was.
func lastOf(entry string, seen map[proxy.Caller]time.Time) *time.Time {
	const port = "sc-tls-1"
	admission, err := proxy.ParseAdmission(port + "=" + entry)
	if err != nil {
		return nil
	}
	guard := admission.Guard(port)
	var last *time.Time
	for who, at := range seen {
		if guard.Judge(who) == "" {
			last = later(last, at)
		}
	}
	return last
}
