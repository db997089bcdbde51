package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Uptake counts the Services whose pods serve the current certificates.
type Uptake struct {
	Services int // Services whose certificate pods serve, or should serve
	Serving  int // those of Services whose ready pods all do
	// Waiting lists those whose pods do not all serve it yet, but will: NAMESPACE/NAME.
	Waiting []string
	// left lists those that stay so without manual action.
	left []NotServed
	// Unseen: the rotator has probed none of them.
	Unseen bool
	// podKeys lists the Services whose pods have their own keys: NAMESPACE/NAME. Their
	// certificates do not change with a Secret, and are not waited for.
	podKeys []string
	// last is the Service whose pods took up its certificate last, at the time at.
	last string
	at   time.Time
}

// restartTime is how long the rotator may take to restart a stale workload: as long as a rollout may block the next
// one. A workload that is stale for longer is held back, and has an event with the reason.
const restartTime = 30 * time.Minute

// CountUptake counts the Services by their conditions.
func CountUptake(services []Service, now time.Time) Uptake {
	u := Uptake{Unseen: true, podKeys: withPodKeys(services)}
	for _, s := range services {
		if s.Serving != nil && s.Leaf != "" && s.Serving.Reason != api.ServingNotVerified {
			u.Unseen = false
		}
		switch {
		case s.isAbout(api.ServingNoConsumers), s.servesNothing():
		case s.Serving != nil && (s.Refused() || s.Ready == "False" && s.Leaf == "" && !s.PodKeys): // its pods may serve an old one
			u.Services++
			u.left = append(u.left, NotServed{s.String(), s.Message})
		case s.Leaf != "":
			u.count(s, now)
		}
	}
	return u
}

// count counts a Service whose certificate pods serve, or should serve.
func (u *Uptake) count(s Service, now time.Time) {
	u.Services++
	switch serving := s.Serving; {
	case serving == nil || serving.Outdated || serving.Leaf != s.Leaf || serving.Reason == api.ServingPropagating:
		u.Waiting = append(u.Waiting, s.String())
	case serving.isTrue():
		u.Serving++
		if at := latest(serving.Changed, serving.Since); u.last == "" || at.After(u.at) {
			u.last, u.at = s.String(), at
		}
	case s.isAbout(api.ServingStale) && serving.restartFollows() && now.Sub(serving.Changed) < restartTime:
		u.Waiting = append(u.Waiting, s.String())
	default:
		u.left = append(u.left, NotServed{s.String(), serving.Message})
	}
}

// withPodKeys returns the Services that have pods with their own keys, and certificates of this cluster's CA.
func withPodKeys(services []Service) []string {
	var names []string
	for _, s := range services {
		if s.PodKeys && !s.External && s.Ready != "" && !s.isAbout(api.ServingNoConsumers) {
			names = append(names, s.String())
		}
	}
	return names
}

func latest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}

// Over reports whether nothing more changes without manual action.
func (u Uptake) Over() bool { return len(u.Waiting) == 0 }

// Progress returns a line with the counts.
func (u Uptake) Progress() string {
	text := fmt.Sprintf("the pods of %d of %d Services serve their new certificate", u.Serving, u.Services)
	if len(u.Waiting) > 0 {
		text += "; not yet: " + Listed(u.Waiting)
	}
	return text
}

// End returns the lines about the final state.
func (u Uptake) End() string {
	var b strings.Builder
	switch {
	case u.Services == 0 && len(u.podKeys) > 0:
		b.WriteString("served: no pod mounts the certificate of a Secret\n")
	case u.Services == 0:
		b.WriteString("served: no pod mounts a certificate\n")
	case u.Serving == 0:
		b.WriteString("served: by no pod\n")
	case len(u.left) == 0:
		fmt.Fprintf(&b, "served: by every pod of %s; the last one, %s, since %s\n", api.Count(u.Serving, "Service"), u.last, u.at.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintf(&b, "served: by every pod of %d of %d Services; the last one, %s, since %s\n", u.Serving, u.Services, u.last, u.at.UTC().Format(time.RFC3339))
	}
	for _, n := range u.left {
		fmt.Fprintf(&b, "not served: %s: %s\n", n.Service, n.Why)
	}
	return b.String()
}

// PodKeysEnd returns the line about the certificates of pods' own keys; "" without any.
// breaks: clients no longer accept the earlier certificates.
func (u Uptake) PodKeysEnd(breaks bool) string {
	if len(u.podKeys) == 0 {
		return ""
	}
	when := "each pod gets one from the new CA at its next refresh; until then, clients accept its current certificate"
	if breaks {
		when = "clients no longer accept them, and only a new pod gets a new key and certificate"
	}
	return fmt.Sprintf("not replaced: certificates of pods with their own keys, of %s (%s): %s; kubectl servingcert status -A shows what they serve\n",
		api.Count(len(u.podKeys), "Service"), Listed(u.podKeys), when)
}

// NotServed is a Service whose pods do not all serve its certificate, and why.
type NotServed struct {
	Service string `json:"service"` // NAMESPACE/NAME
	Why     string `json:"why"`
}

// Served is an Uptake in the form of -o json.
type Served struct {
	// Services is the number of Services whose certificate pods serve, or should serve; for Serving
	// of them, every pod does.
	Services int `json:"services"`
	Serving  int `json:"serving"`
	// Waiting lists those whose pods do not all serve it yet, but will: NAMESPACE/NAME.
	Waiting   []string    `json:"waiting,omitempty"`
	NotServed []NotServed `json:"notServed,omitempty"`
	// PodKeys lists the Services whose pods have their own keys, which are not replaced.
	PodKeys []string `json:"podKeys,omitempty"`
	// Last is the Service whose pods took up its certificate last.
	Last   string     `json:"last,omitempty"`
	LastAt *time.Time `json:"lastAt,omitempty"`
	// Unknown is why the counts are missing or incomplete; "" if they are complete.
	Unknown string `json:"unknown,omitempty"`
}

// Served returns the uptake as data.
func (u Uptake) Served() Served {
	s := Served{
		Services: u.Services, Serving: u.Serving, Waiting: u.Waiting, NotServed: u.left, PodKeys: u.podKeys,
		Last: u.last, LastAt: moment(u.at.UTC()),
	}
	if u.Unseen && u.Services > 0 {
		s.Unknown = NotVerified
	}
	return s
}

// NotVerified is the message for Services that the rotator does not probe.
const NotVerified = "the rotator does not verify what pods serve (--verify-consumers=false), or is not running"
