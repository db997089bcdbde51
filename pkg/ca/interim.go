package ca

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// While the CA is lost nothing may be signed that its clients would have to trust. The
// webhook needs a certificate all the same: without one the API server cannot call it,
// and refuses every pod of the namespaces that are opted in. An interim CA signs for
// servingcert's own namespace, and only the webhook configurations that lead there
// trust it. It is in a Secret of its own, in the form of the CA Secret: where the CA is
// lost, its Secret stays absent until somebody restores it.

// interimDuration is how long an interim CA lives. It is replaced in its last third.
const interimDuration = 365 * 24 * time.Hour

// interimLeaf is the longest life of what it signs. It bounds how long its root stays
// trusted after the CA is back.
const interimLeaf = 24 * time.Hour

// InterimStep is one write to the Secret of the interim CA.
type InterimStep string

// The steps; "" is none.
const (
	// InterimMake makes an interim CA, in place of one that cannot be used any more.
	InterimMake InterimStep = "Make"
	// InterimRaise raises the mark of what it may sign.
	InterimRaise InterimStep = "Raise"
	// InterimEnd forgets it: nothing that it signed is in use.
	InterimEnd InterimStep = "End"
)

// Interim is what follows from a Situation for the interim CA.
type Interim struct {
	Step InterimStep
	// State is the stored one, nil if there is none that can be used.
	State *State
	// Authority signs for servingcert's own namespace, nil if that is not to be.
	Authority *pki.Authority
}

// parseInterim returns the interim CA that its Secret holds, nil if that holds none that
// is good: another takes its place. By a clock that is wrong none has ended.
func parseInterim(s Situation) *State {
	state, err := ParseState(s.Interim)
	if err != nil || s.ClockErr == nil && state.OutOfTime(s.Now) != (api.CAMessage{}) {
		return nil
	}
	return &state
}

// interimInUse reports whether what the interim CA signed may be in use.
func (s Situation) interimInUse(state State) bool {
	return s.ClockErr != nil || state.signing().inUse(s.Now)
}

// needsInterim reports whether nothing is signed until a person does something, or until
// clients trust what that made. A remote CA can sign what is lost: it is asked for by --replace-lost.
func needsInterim(s Situation, d Decision) bool {
	lost := d.Problem.Reason == api.CALost || d.Problem.Reason == api.CACorrupt || d.Problem.Reason == api.CANewerVersion
	return (lost || d.State != nil && d.State.replacing()) && !s.HasRemote && s.ClockErr == nil
}

// decideInterim decides about the interim CA, by what was decided about the CA.
func decideInterim(s Situation, d Decision) Interim {
	i := Interim{State: parseInterim(s)}
	switch needed := needsInterim(s, d); {
	case i.State == nil && needed, needed && s.Now.After(i.State.signing().Ends().Add(-interimDuration/3)):
		i.Step = InterimMake
	case i.State == nil && len(s.Interim) > 0, i.State != nil && !needed && !s.interimInUse(*i.State):
		i.Step = InterimEnd
	case needed && raised(*i.State, s.Now, interimLeaf).signing().UsedUntil.After(i.State.signing().UsedUntil):
		i.Step = InterimRaise
	case needed:
		i.Authority = i.State.interimAuthority(s)
	}
	return i
}

// Apply returns what the Secret of the interim CA is to hold after the step; nil: it
// is to be deleted. It draws a key, and changes nothing.
func (i Interim) Apply(s Situation) (map[string][]byte, error) {
	switch i.Step {
	case InterimMake:
		s.CADuration = interimDuration
		g, err := newGeneration(1, Step{Why: "the CA is lost, and the webhook needs a certificate"}, s, nil)
		if err != nil {
			return nil, err
		}
		g.SignsSince = g.MadeAt
		return EncodeState(raised(State{Generations: []Generation{g}, Signing: g.Number}, s.Now, interimLeaf))
	case InterimRaise:
		return EncodeState(raised(*i.State, s.Now, interimLeaf))
	}
	return nil, nil
}

// interimAuthority returns what it takes to sign a leaf of servingcert's own namespace.
// One that the lost CA signed is good as long as it lasts: its root is in the bundle.
func (s State) interimAuthority(at Situation) *pki.Authority {
	g := s.signing()
	before := lastBundle(at)
	never := g.Ends()
	var older []pki.Issuer
	for _, root := range before {
		older = append(older, pki.Issuer{Certificate: root})
	}
	return &pki.Authority{
		Issuer:    pki.Issuer{Certificate: g.Root},
		Key:       g.Key,
		Older:     older,
		Reissue:   pki.Window{From: never, Until: never},
		Bundle:    pki.NewBundle(append(before, g.Root)...),
		Anchors:   []*x509.Certificate{g.Root},
		MaxLeaf:   interimLeaf,
		SignUntil: g.signUntil(),
	}
}

// ownBundle returns what only webhooks of servingcert's own namespace are called by,
// beside the bundle: the root of an interim CA, for as long as its leaves may be in
// use. Nil where there is none.
func (i Interim) ownBundle(s Situation, bundle string) *pki.Bundle {
	if i.State == nil || !s.interimInUse(*i.State) {
		return nil
	}
	roots := []*x509.Certificate{i.State.signing().Root}
	if published, err := pki.ParseBundle([]byte(bundle)); err == nil {
		roots = append(roots, published.Certificates()...)
	}
	own := pki.NewBundle(roots...)
	return &own
}

// lastBundle returns the roots that the status says clients trust.
func lastBundle(s Situation) []*x509.Certificate {
	if s.Status == nil {
		return nil
	}
	bundle, err := pki.ParseBundle([]byte(s.Status.Bundle))
	if err != nil {
		return nil
	}
	return slices.Clone(bundle.Unexpired(s.Now).Certificates())
}
