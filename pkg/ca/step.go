package ca

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// StepKind is what one write to the CA Secret does.
type StepKind string

// The steps.
const (
	// StepFresh starts anew with one generation that owes nothing to any before.
	StepFresh StepKind = "Fresh"
	// StepRaise raises the mark of the generation that signs.
	StepRaise StepKind = "Raise"
	// StepPrepare makes the next generation, cross-signed by the one that signs.
	StepPrepare StepKind = "Prepare"
	// StepAbandon forgets a generation that waits: it has signed nothing.
	StepAbandon StepKind = "Abandon"
	// StepTrusted notes since when every target is known to hold the new root.
	StepTrusted StepKind = "Trusted"
	// StepPromote lets the new generation sign and erases the keys before it.
	StepPromote StepKind = "Promote"
	// StepRetire takes roots out of the bundle and forgets expired crosses.
	StepRetire StepKind = "Retire"
	// StepRefuse answers a request with no.
	StepRefuse StepKind = "Refuse"
)

// Step is one write to the CA Secret.
type Step struct {
	Kind StepKind // "" for none
	Why  string   // for people
	// Candidate is the CA that becomes a generation; nil: one is made here.
	Candidate *Candidate
	// Answers: the generation is made for the request that was observed.
	Answers bool
}

// Apply returns the state after the decision's step. It draws keys, and changes
// nothing else: nothing is written.
func (d Decision) Apply(o Observed) (State, error) {
	var s State
	if d.State != nil {
		s = *d.State
		s.Generations = slices.Clone(s.Generations)
	}
	var err error
	switch d.Step.Kind {
	case StepFresh:
		s, err = s.fresh(d.Step, o)
	case StepRaise:
		s = s.raised(o.Now, o.MaxDuration)
	case StepPrepare:
		s, err = s.prepared(d.Step, o)
	case StepAbandon:
		s = s.abandoned()
	case StepTrusted:
		s.Generations[len(s.Generations)-1].TrustedAt = seconds(o.Now.Add(time.Second - 1)) // up: the soak is not cut short
	case StepPromote:
		s = s.promoted(o)
	case StepRetire:
		s, _ = s.tidied(o.Now)
	case StepRefuse:
		s.Rotation = Rotation{Mode: o.Request.Mode, Reason: o.Request.Reason, Refused: d.Step.Why}
	default:
		return s, fmt.Errorf("no step %q", d.Step.Kind)
	}
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", d.Step.Kind, err)
	}
	return s, s.Validate()
}

// fresh replaces everything by one generation that signs at once. Its number
// follows the highest that is known.
func (s State) fresh(step Step, o Observed) (State, error) {
	number := o.StatusGeneration
	for _, g := range s.Generations {
		number = max(number, g.Number)
	}
	g, err := newGeneration(number+1, step, o, nil)
	if err != nil {
		return State{}, err
	}
	g.SignsSince = g.MadeAt
	next := State{Generations: []Generation{g}, Signing: g.Number, Rotation: s.Rotation, Import: s.Import}
	if step.Candidate != nil && step.Candidate.Origin == OriginImport {
		next.Import = step.Candidate.fingerprint()
	}
	if o.Request.open(s.Rotation.String()) && (o.Request.Mode == api.RotateDistrust || o.Request.Mode == api.RotateReplaceLost) {
		next.Rotation = Rotation{Mode: o.Request.Mode, Reason: o.Request.Reason, Generation: g.Number}
	}
	return next.raised(o.Now, o.MaxDuration), nil
}

// prepared adds the next generation, which does not sign yet.
func (s State) prepared(step Step, o Observed) (State, error) {
	number := max(s.newest().Number, o.StatusGeneration) + 1
	g, err := newGeneration(number, step, o, s.formerDomains(o.Now, o.Domain))
	if err != nil {
		return State{}, err
	}
	if g.Cross, err = s.cross(g.Root, o.Now); err != nil {
		return State{}, err
	}
	s.Generations = append(s.Generations, g)
	if step.Candidate != nil && step.Candidate.Origin == OriginImport {
		s.Import = step.Candidate.fingerprint()
	}
	if step.Answers {
		s.Rotation = Rotation{Mode: o.Request.Mode, Reason: o.Request.Reason, Generation: number}
	}
	return s, nil
}

// newGeneration makes a generation, or takes the one that is brought. A new one
// permits what the flags do, and the former cluster domains that go on being
// served meanwhile.
func newGeneration(number int, step Step, o Observed, former []string) (Generation, error) {
	g := Generation{Number: number, Domain: o.Domain, Why: step.Why, MadeAt: seconds(o.Now)}
	if step.Candidate != nil {
		from := step.Candidate.generation()
		g.Origin, g.Root, g.Intermediates, g.Key = from.Origin, from.Root, from.Intermediates, from.Key
		return g, nil
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return g, fmt.Errorf("make CA key: %w", err)
	}
	permitted := pki.Constraints{PermittedDNS: slices.Concat(o.Wanted.PermittedDNS, former), PermitIPs: o.Wanted.PermitIPs}.Normalize()
	notBefore := pki.NotBefore(o.Now)
	g.Key = key
	if g.Root, err = pki.NewRoot(key, number, permitted, notBefore, notBefore.Add(o.CADuration)); err != nil {
		return g, fmt.Errorf("make CA certificate: %w", err)
	}
	return g, nil
}

// cross returns root signed by the generation that signs; nil where it could help
// nobody: that one has no key here, has ended, has the same root, or a path length
// somewhere, under which a chain of crosses fails sooner or later.
func (s State) cross(root *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	signing := s.signing()
	switch {
	case signing.Key == nil, now.After(signing.ends()), signing.Root.Equal(root), signing.hasPathLength():
		return nil, nil
	}
	return pki.NewCross(root, signing.Issuer(), signing.Key, pki.NotBefore(now))
}

// abandoned returns the state without the newest generation, which waits.
func (s State) abandoned() State {
	last := len(s.Generations) - 1
	s.Generations = s.Generations[:last:last]
	return s
}

// promoted lets the newest generation sign, and erases the keys before it.
func (s State) promoted(o Observed) State {
	last := len(s.Generations) - 1
	for i := range last {
		s.Generations[i].Key = nil
	}
	s.Generations[last].SignsSince = seconds(o.Now)
	s.Signing = s.Generations[last].Number
	return s.raised(o.Now, o.MaxDuration)
}

// clockMargin is by how much the clocks of clients and of two signers may differ:
// as much as certificates are backdated by.
const clockMargin = pki.Backdate

// tidied returns the state without what is no longer needed, and when next there
// will be such; zero: never. A cross-certificate is forgotten when it has expired,
// and a generation when the cross-certificate that it signed is.
func (s State) tidied(now time.Time) (State, time.Time) {
	var next time.Time
	due := func(at time.Time) bool {
		if now.After(at) {
			return true
		}
		if at = at.Add(time.Second); next.IsZero() || at.Before(next) {
			next = at
		}
		return false
	}
	s.Generations = slices.Clone(s.Generations)
	s.retire(due)
	for i := range s.Generations {
		if g := &s.Generations[i]; g.Cross != nil && due(g.Cross.NotAfter.Add(-endingBefore)) && due(g.Cross.NotAfter) {
			g.Cross = nil
		}
	}
	for len(s.Generations) > 1 && s.Generations[0].Retired && s.Generations[0].Cross == nil && s.Generations[1].Cross == nil {
		s.Generations = s.Generations[1:]
	}
	return s, next
}

// retire takes roots out of the bundle: of generations whose last leaf has ended,
// once no leaf of a later one is served with a chain that leads there. Until then a
// client that is still without a newer root needs it, and so does GnuTLS (see
// narrower). What is below a root that is taken out goes with it: no chain leads
// there either.
func (s State) retire(due func(time.Time) bool) {
	for i := range s.signingIndex() {
		if g := s.Generations[i]; !due(g.UsedUntil.Add(clockMargin)) {
			return
		}
		next := s.Generations[i+1]
		if next.Root.Equal(s.Generations[i].Root) {
			continue // it goes when the next does
		}
		if leads := next.Cross != nil && !s.Generations[i].narrower(next); leads && !due(next.Cross.NotAfter) {
			continue
		}
		for j := range i + 1 {
			s.Generations[j].Retired = true
		}
	}
}

// differs reports whether tidying changed anything.
func (s State) differs(from State) bool {
	return !slices.EqualFunc(s.Generations, from.Generations, func(a, b Generation) bool {
		return a.Number == b.Number && a.Retired == b.Retired && (a.Cross == nil) == (b.Cross == nil)
	})
}
