package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Uptake is how far the certificates of now are taken up.
type Uptake struct {
	Services int      // whose certificate somebody serves, or should
	Serving  int      // of which every ready pod does
	Waiting  []string // those of which not every pod does yet: NAMESPACE/NAME
	// Left are those of which that will not change by itself: NAMESPACE/NAME: words.
	Left []string
	// Unseen: nobody has looked at any of them.
	Unseen bool
	// last is the Service whose pods took it up last, and when.
	last string
	at   time.Time
}

// CountUptake is pure. The consumers need be no more than those of Services whose
// reason is Stale.
func CountUptake(services []Service, consumers []Consumer) Uptake {
	u := Uptake{Unseen: true}
	for _, s := range services {
		if s.Leaf == "" {
			continue
		}
		name, serving := s.Namespace+"/"+s.Name, s.Serving
		if serving != nil && serving.Reason != api.ServingNotVerified {
			u.Unseen = false
		}
		if serving != nil && serving.Leaf == s.Leaf && serving.Reason == api.ServingNoConsumers {
			continue
		}
		u.Services++
		switch {
		case serving == nil || serving.Leaf != s.Leaf || serving.Reason == api.ServingPropagating:
			u.Waiting = append(u.Waiting, name)
		case serving.isTrue():
			u.Serving++
			if at := latest(serving.Changed, serving.Since); u.last == "" || at.After(u.at) {
				u.last, u.at = name, at
			}
		case serving.Reason == api.ServingStale && slices.ContainsFunc(consumers, func(c Consumer) bool { return c.isRestartedFor(s) }):
			u.Waiting = append(u.Waiting, name)
		default:
			u.Left = append(u.Left, name+": "+serving.Message)
		}
	}
	return u
}

func latest(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}

// isRestartedFor reports whether the rotator may restart the pod, which is said to
// serve an older certificate of the Service.
func (c Consumer) isRestartedFor(s Service) bool {
	return c.isRestarted() && c.Namespace == s.Namespace && slices.Contains(c.Secrets, s.Secret) && s.Serving.isStale(c)
}

// Progress says in one line how far it is.
func (u Uptake) Progress() string {
	return fmt.Sprintf("the pods of %d of %d Services serve their new certificate; not yet: %s", u.Serving, u.Services, shorten(u.Waiting))
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
	for _, line := range u.Left {
		fmt.Fprintf(&b, "not served: %s\n", line)
	}
	return b.String()
}
