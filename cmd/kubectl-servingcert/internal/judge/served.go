package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Uptake is how far the certificates of now are taken up.
type Uptake struct {
	Services int // whose certificate somebody serves, or should
	Serving  int // of which every ready pod does
	// Waiting are those of which not every pod does yet, but will: NAMESPACE/NAME.
	Waiting []string
	// Left are those of which that does not change by itself: NAMESPACE/NAME: why.
	Left []string
	// Held are the workloads whose restart is held until somebody does something,
	// and why. Their Services are in Left, or in Waiting because of other workloads.
	Held []string
	// Doubt is why it is not known of some in Left whether anything is under way;
	// "" if it is known of all.
	Doubt string
	// Unseen: nobody has looked at any of them.
	Unseen bool
	// last is the Service whose pods took it up last, and when.
	last string
	at   time.Time
}

// CountUptake counts by the conditions of the Services and the stale workloads that
// AddStale has added.
func CountUptake(services []Service) Uptake {
	u := Uptake{Unseen: true}
	var stale []Service
	for _, s := range services {
		serving := s.Serving
		if serving != nil && s.Leaf != "" && serving.Reason != api.ServingNotVerified {
			u.Unseen = false
		}
		if s.Leaf == "" || s.isAbout(api.ServingNoConsumers) {
			continue
		}
		u.Services++
		if s.isAbout(api.ServingStale) {
			stale = append(stale, s)
		}
		switch {
		case serving == nil || serving.Leaf != s.Leaf || serving.Reason == api.ServingPropagating:
			u.Waiting = append(u.Waiting, s.String())
		case serving.isTrue():
			u.Serving++
			if at := latest(serving.Changed, serving.Since); u.last == "" || at.After(u.at) {
				u.last, u.at = s.String(), at
			}
		case s.isAbout(api.ServingStale) && serving.restartFollows():
			u.Waiting = append(u.Waiting, s.String())
		default:
			u.Left = append(u.Left, s.String()+": "+serving.Message)
			u.Doubt = cmp.Or(u.Doubt, serving.StaleUnknown)
		}
	}
	u.Held = Holds(stale)
	return u
}

// isAbout reports whether condition Serving has the reason, and is about the leaf of
// now.
func (s Service) isAbout(reason string) bool {
	return s.Serving != nil && s.Serving.Leaf == s.Leaf && s.Serving.Reason == reason
}

// restartFollows reports whether the rotator restarts one of the stale workloads
// without anybody's help.
func (s *Serving) restartFollows() bool {
	return slices.ContainsFunc(s.Stale, func(w api.StaleWorkload) bool { return restarts(w) && !isHeld(w) })
}

func latest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}

// Over reports whether nothing changes any more without somebody's help.
func (u Uptake) Over() bool { return len(u.Waiting) == 0 && !u.MayGoOn() }

// MayGoOn reports whether, for all that is known, somebody may be at work on what
// is not served: a budget may allow a disruption again, and a report may be late.
func (u Uptake) MayGoOn() bool { return len(u.Held) > 0 || u.Doubt != "" }

// Progress says in one line how far it is.
func (u Uptake) Progress() string {
	text := fmt.Sprintf("the pods of %d of %d Services serve their new certificate", u.Serving, u.Services)
	if len(u.Waiting) > 0 {
		text += "; not yet: " + shorten(u.Waiting)
	}
	if len(u.Held) > 0 {
		text += "; " + strings.ReplaceAll(Bounded(u.Held), "\n", "; ")
	}
	if u.Doubt != "" {
		text += "; " + u.Doubt
	}
	return text
}

// End says what has become of the certificates.
func (u Uptake) End() string {
	var b strings.Builder
	switch {
	case u.Services == 0:
		b.WriteString("served: no pod mounts a certificate\n")
	case u.Serving == 0:
		b.WriteString("served: by no pod\n")
	case len(u.Left) == 0:
		fmt.Fprintf(&b, "served: by every pod of %d Services; the last one, %s, since %s\n", u.Serving, u.last, u.at.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintf(&b, "served: by every pod of %d of %d Services; the last one, %s, since %s\n", u.Serving, u.Services, u.last, u.at.UTC().Format(time.RFC3339))
	}
	for _, line := range append(slices.Clone(u.Left), u.Held...) {
		fmt.Fprintf(&b, "not served: %s\n", line)
	}
	if u.Doubt != "" {
		fmt.Fprintln(&b, u.Doubt)
	}
	return b.String()
}
