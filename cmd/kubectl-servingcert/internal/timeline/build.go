package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// Input is what a Timeline is made of.
type Input struct {
	Now time.Time
	// CA is the CA's status, nil if the user may not read it.
	CA *api.CAStatus
	// Services are those whose certificates are shown.
	Services []judge.Service
	// Since and Until are how far the axis reaches before and after Now; zero: as far as
	// there is something to show.
	Since, Until time.Duration
}

// Build returns the timeline of the CA and the Services.
func Build(in Input) Timeline {
	t := Timeline{Now: in.Now.UTC().Truncate(time.Second)}
	generations := t.generations(in.CA)
	certificates := t.certificates(in.Services)
	t.From, t.Until = axisOf(generations, certificates, t.Now)
	if in.Since > 0 {
		t.From = t.Now.Add(-in.Since).Truncate(time.Second)
	}
	if in.Until > 0 {
		t.Until = t.Now.Add(in.Until).Truncate(time.Second)
	}
	if !t.Until.After(t.From) {
		t.Until = t.From.Add(time.Minute)
	}
	t.Lanes = slices.DeleteFunc(generations, func(l Lane) bool { return !l.within(t.From, t.Until) })
	t.Lanes = append(t.Lanes, certificates...)
	return t
}

// axisOf returns what the axis shows if nothing else is asked for: all certificates or,
// without any whose times are known, all generations; and now.
func axisOf(generations, certificates []Lane, now time.Time) (from, until time.Time) {
	from, until = now, now
	widen := func(lanes []Lane) (known bool) {
		for _, l := range lanes {
			if first, last, ok := l.ends(); ok {
				known = true
				if first.Before(from) {
					from = first
				}
				if last.After(until) {
					until = last
				}
			}
		}
		return known
	}
	if !widen(certificates) {
		widen(generations)
	}
	return from, until
}

// generations returns the lanes of the CA.
func (t *Timeline) generations(ca *api.CAStatus) []Lane {
	switch {
	case ca == nil:
		t.Missing = append(t.Missing, "the generations of the CA: you may not read ConfigMap "+api.CAStatusName)
		return nil
	case len(ca.Generations) == 0 && ca.Generation == 0:
		t.Missing = append(t.Missing, "the generations of the CA: no generation signs")
		return nil
	case len(ca.Generations) == 0:
		t.Missing = append(t.Missing, fmt.Sprintf("the history of the CA: ConfigMap %s has no key %s; its signer is older than this command", api.CAStatusName, api.CAGenerations))
		l := Lane{Kind: Generation, Name: fmt.Sprintf("generation %d", ca.Generation)}
		l.add(MaySign, t.Now, ca.NotAfter)
		l.mark(Expires, ca.NotAfter)
		return []Lane{l}
	}
	lanes := make([]Lane, len(ca.Generations))
	for i, r := range ca.Generations {
		lanes[i] = t.generation(r, nextToSign(ca.Generations, i))
	}
	return lanes
}

// nextToSign returns when a later generation took over from the one at i; zero: none did.
func nextToSign(all []api.CAGenerationRecord, i int) time.Time {
	for _, r := range all[i+1:] {
		if !r.SignsSince.IsZero() {
			return r.SignsSince
		}
	}
	return time.Time{}
}

// generation returns the lane of a generation; next is when another took over.
func (t *Timeline) generation(r api.CAGenerationRecord, next time.Time) Lane {
	l := Lane{Kind: Generation, Name: fmt.Sprintf("generation %d", r.Number), About: aboutGeneration(r)}
	gone := r.RetiredAt
	if gone.IsZero() {
		gone = t.Now
	}
	signs := firstOf(r.SignsSince, gone)
	l.add(Prepared, r.MadeAt, firstOf(r.TrustedAt, signs))
	l.add(Trusted, r.TrustedAt, signs)
	switch over := firstOf(next, r.RetiredAt); {
	case r.SignsSince.IsZero():
	case !over.IsZero():
		l.add(Signs, r.SignsSince, over)
		used := r.UsedUntil
		if r.Retired && gone.Before(used) {
			used = gone
		}
		l.add(Used, over, used)
		l.add(Kept, latest(over, used), gone)
	case !r.Retired:
		l.add(Signs, r.SignsSince, earliest(t.Now, r.NotAfter))
		l.add(MaySign, latest(t.Now, r.SignsSince), r.NotAfter)
	}
	l.mark(WasPrepared, r.MadeAt)
	l.mark(WasTrusted, r.TrustedAt)
	l.mark(WasPromoted, r.SignsSince)
	if !next.IsZero() { // before, the mark rises every day
		l.mark(UsedLast, r.UsedUntil)
	}
	l.mark(WasRetired, r.RetiredAt)
	if !r.Retired {
		l.mark(Expires, r.NotAfter)
	}
	l.sort()
	return l
}

func aboutGeneration(r api.CAGenerationRecord) string {
	about := r.Origin
	if r.Why != "" {
		about += fmt.Sprintf(" (%s)", api.Escape(r.Why))
	}
	about += ", root " + judge.Short(r.Root)
	switch {
	case r.Retired && r.SignsSince.IsZero():
		about += ", never signed"
	case r.Retired && r.RetiredAt.IsZero():
		about += ", retired; when is not known"
	}
	return about
}

// certificates returns the lanes of the Services.
func (t *Timeline) certificates(services []judge.Service) []Lane {
	lanes := make([]Lane, 0, len(services))
	var unread, inPods []string
	for i := range services {
		s := &services[i]
		lanes = append(lanes, certificate(s))
		switch {
		case s.NotAfter != nil:
		case s.PodKeys:
			inPods = append(inPods, s.String())
		case s.Leaf != "":
			unread = append(unread, s.String())
		}
	}
	if len(unread) > 0 {
		t.Missing = append(t.Missing, "when certificates were issued and end, since you may not read their Secrets, or they are gone or damaged: "+judge.Listed(unread))
	}
	if len(inPods) > 0 {
		t.Missing = append(t.Missing, "the certificates of keys that pods made, which are in the pods alone: "+judge.Listed(inPods))
	}
	return lanes
}

func certificate(s *judge.Service) Lane {
	l := Lane{Kind: Certificate, Name: s.String(), About: aboutCertificate(s)}
	if s.NotBefore != nil && s.NotAfter != nil && s.RenewAt != nil {
		l.add(Valid, *s.NotBefore, earliest(*s.RenewAt, *s.NotAfter))
		l.add(Renewal, *s.RenewAt, *s.NotAfter)
		l.mark(ValidFrom, *s.NotBefore)
		l.mark(RenewalDue, *s.RenewAt)
		l.mark(Expires, *s.NotAfter)
	}
	if serving := s.Serving; serving != nil && serving.Leaf == s.Leaf {
		if serving.Since != nil {
			l.mark(WasStored, *serving.Since)
		}
		if serving.Status == "True" {
			l.mark(WasServed, serving.Changed)
		}
	}
	l.sort()
	return l
}

func aboutCertificate(s *judge.Service) string {
	var about []string
	if key := s.Key().String(); key != "" {
		about = append(about, "Secret "+key)
	}
	if s.Leaf != "" {
		about = append(about, "leaf "+judge.Short(s.Leaf))
	}
	if s.Ready != "True" {
		about = append(about, strings.TrimSpace("not ready "+s.Reason))
	}
	if column := s.Serving.Column(); column != "" && column != "True" {
		about = append(about, "not served: "+column)
	}
	return strings.Join(about, ", ")
}

// firstOf returns the first time that is not zero.
func firstOf(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
