package ca

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// StepKind is the kind of a write to the CA Secret.
type StepKind string

// The steps.
const (
	// StepFresh replaces all generations by one that does not depend on them.
	StepFresh StepKind = "Fresh"
	// StepRaise raises the mark of the generation that signs.
	StepRaise StepKind = "Raise"
	// StepPrepare makes the next generation, cross-signed by the one that signs.
	StepPrepare StepKind = "Prepare"
	// StepAbandon removes a waiting generation, which has signed nothing.
	StepAbandon StepKind = "Abandon"
	// StepTrusted records since when every target is known to hold the new root.
	StepTrusted StepKind = "Trusted"
	// StepPromote makes the new generation sign and erases the earlier keys.
	StepPromote StepKind = "Promote"
	// StepRetire removes roots from the bundle and expired cross-certificates.
	StepRetire StepKind = "Retire"
	// StepRefuse refuses a request.
	StepRefuse StepKind = "Refuse"
)

// Step is one write to the CA Secret.
type Step struct {
	Kind StepKind // "" for none
	Why  string   // for people
	// Candidate is the CA that becomes a generation; nil: one is made here.
	Candidate *Candidate
	// Answers: the generation answers the current request.
	Answers bool
}

// freshStep returns a StepFresh, with the remote CA if there is one. If that is not
// usable, it returns no step.
func freshStep(s Situation, why string) Step {
	if s.HasRemote && (s.Remote == nil || s.Remote.check(s.Parameters, s.Now) != nil) {
		return Step{}
	}
	return Step{Kind: StepFresh, Why: why, Candidate: s.Remote}
}

// apply returns the stored state after the step. It generates keys.
func apply(stored State, step Step, s Situation) (next State, err error) {
	next = stored
	next.Generations = slices.Clone(stored.Generations)
	switch step.Kind {
	case StepFresh:
		next, err = fresh(next, step, s)
	case StepRaise:
		next = raised(next, s.Now, s.MaxDuration)
	case StepPrepare:
		next, err = prepared(next, step, s)
	case StepAbandon:
		next = abandoned(next)
	case StepTrusted:
		next.Generations[len(next.Generations)-1].TrustedAt = seconds(s.Now.Add(time.Second - 1)) // rounded up, so that the soak is not shortened
	case StepPromote:
		next = promoted(next, s)
	case StepRetire:
		next, _ = tidied(next, s.Now)
	case StepRefuse:
		next.Rotation = refused(s.Request, step.Why)
	default:
		return State{}, fmt.Errorf("unknown step %q", step.Kind)
	}
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", step.Kind, err)
	}
	return next, nil
}

// fresh replaces everything by one generation that signs at once. Its number follows
// the highest known number. A CA that was imported before is not imported again, even if
// the state that recorded it is lost: it may be distrusted.
func fresh(stored State, step Step, s Situation) (State, error) {
	number := s.newestSeen()
	for _, g := range stored.Generations {
		number = max(number, g.Number)
	}
	g, err := newGeneration(number+1, step, s, nil)
	if err != nil {
		return State{}, err
	}
	g.SignsSince = g.MadeAt
	next := State{Generations: []Generation{g}, Signing: g.Number, Rotation: stored.Rotation, Import: cmp.Or(stored.Import, s.lastImport())}
	if step.Candidate != nil && step.Candidate.Origin == OriginImport {
		next.Import = step.Candidate.fingerprint()
	}
	if s.asks(stored.Rotation.request()) && (s.Request.Mode == api.RotateDistrust || s.Request.Mode == api.RotateReplaceLost) {
		next.Rotation = made(s.Request, g.Number)
	}
	if s.Request.Mode == api.RotateReplaceLost && len(s.ExtraRoots) > 0 {
		next.Generations[0].SignsSince = time.Time{} // clients may still hold only those roots
	}
	return raised(next, s.Now, s.MaxDuration), nil
}

// prepared adds the next generation, which does not sign yet. The ladder uses the
// cross-certificate that is made here, not one that was imported.
func prepared(state State, step Step, s Situation) (State, error) {
	number := max(state.Newest().Number, s.newestSeen()) + 1
	if domain := state.Newest().trustDomain(); domain != "" {
		s.Constraints.TrustDomain = domain // immutable: every list of clients names it
	}
	g, err := newGeneration(number, step, s, state.formerDomains(s.Now, s.Domain))
	if err != nil {
		return State{}, err
	}
	if g.Cross, err = cross(g.Root, state.signing(), s.Now); err != nil {
		return State{}, err
	}
	state.Generations = append(state.Generations, g)
	if step.Candidate != nil && step.Candidate.Origin == OriginImport {
		state.Import = step.Candidate.fingerprint()
	}
	if step.Answers {
		state.Rotation = made(s.Request, number)
	}
	return state, nil
}

// newGeneration creates a generation, or uses the step's candidate. A new one permits
// what the flags permit, and the former cluster domains that are still served.
func newGeneration(number int, step Step, s Situation, former []string) (Generation, error) {
	g := Generation{Number: number, Domain: s.Domain, Why: step.Why, MadeAt: seconds(s.Now)}
	if step.Candidate != nil {
		from := step.Candidate.generation()
		g.Origin, g.Root, g.Intermediates, g.Cross, g.Key = from.Origin, from.Root, from.Intermediates, from.Cross, from.Key
		return g, nil
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return g, fmt.Errorf("generate the CA's key: %w", err)
	}
	permitted := s.Constraints
	permitted.PermittedDNS = slices.Concat(permitted.PermittedDNS, former)
	notBefore := pki.NotBefore(s.Now)
	g.Key = key
	if g.Root, err = pki.NewClusterRoot(key, s.ClusterID, number, permitted.Normalize(), notBefore, notBefore.Add(s.CADuration)); err != nil {
		return g, fmt.Errorf("create the CA's certificate: %w", err)
	}
	return g, nil
}

// cross returns root signed by the signing generation; nil where that is not possible
// or useful: the signing generation has no key here, has expired, has the same root,
// or has a path length, under which a chain of cross-certificates fails eventually.
func cross(root *x509.Certificate, signing Generation, now time.Time) (*x509.Certificate, error) {
	switch {
	case signing.Key == nil, now.After(signing.Ends()), signing.Root.Equal(root), signing.hasPathLength():
		return nil, nil
	}
	return pki.NewCross(root, signing.Issuer(), signing.Key, pki.NotBefore(now))
}

// abandoned returns the state without the newest, waiting generation.
func abandoned(s State) State {
	last := len(s.Generations) - 1
	s.Generations = s.Generations[:last:last]
	return s
}

// promoted makes the newest generation sign, and erases the earlier keys.
func promoted(state State, s Situation) State {
	last := len(state.Generations) - 1
	for i := range last {
		state.Generations[i].Key = nil
	}
	state.Generations[last].SignsSince = seconds(s.Now)
	state.Signing = state.Generations[last].Number
	return raised(state, s.Now, s.MaxDuration)
}
