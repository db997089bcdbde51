package ca

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// While the CA is lost, no certificate may be issued for workloads: no client would
// trust it. The webhook still needs a certificate: without one the API server cannot
// call it and refuses every pod of the opted-in namespaces. An interim CA signs for
// servingcert's own namespace, and only webhook configurations that point there trust
// it. It has its own Secret in the format of the CA Secret: the Secret of a lost CA
// stays absent until a person restores it.

// interimDuration is the lifetime of an interim CA, which is replaced in its last third.
const interimDuration = 365 * 24 * time.Hour

// interimLeaf is the longest lifetime of its leaves. It bounds how long its root stays
// trusted after the CA is restored.
const interimLeaf = 24 * time.Hour

// InterimStep is one write to the Secret of the interim CA.
type InterimStep string

// The steps; "" is none.
const (
	// InterimMake creates an interim CA, or replaces one that can no longer be used.
	InterimMake InterimStep = "Make"
	// InterimRaise raises its high-water mark.
	InterimRaise InterimStep = "Raise"
	// InterimEnd deletes it: no leaf of it is in use.
	InterimEnd InterimStep = "End"
)

// Interim is the decision about the interim CA.
type Interim struct {
	Step InterimStep
	// State is the stored interim CA; nil if there is none or it cannot be used.
	State *State
	// Authority signs for servingcert's own namespace; nil if no interim CA is needed.
	Authority *pki.Authority
}

// parseInterim returns the interim CA in its Secret; nil if there is none or it cannot
// be used and must be replaced. If the clock is wrong, its expiry is not checked.
func parseInterim(s Situation) *State {
	state, err := ParseState(s.Interim)
	if err != nil || s.ClockErr == nil && state.OutOfTime(s.Now) != (api.CAMessage{}) {
		return nil
	}
	return &state
}

// interimInUse reports whether leaves of the interim CA may be in use.
func (s Situation) interimInUse(state State) bool {
	return s.ClockErr != nil || state.signing().inUse(s.Now)
}

// needsInterim reports whether nothing is signed until a person acts, or until clients
// trust the CA that replaces a lost one. A remote CA needs no interim: --replace-lost uses it at once.
func needsInterim(s Situation, d Decision) bool {
	lost := d.Problem.Reason == api.CALost || d.Problem.Reason == api.CACorrupt || d.Problem.Reason == api.CANewerVersion
	return (lost || d.State != nil && d.State.replacing()) && !s.HasRemote && s.ClockErr == nil && s.Objects().Interim != ""
}

// decideInterim decides about the interim CA from the decision about the CA.
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

// Apply returns the data of the interim CA's Secret after the step; nil: delete the
// Secret. It generates a key, and changes nothing.
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

// interimAuthority returns the authority for servingcert's own namespace. Leaves of the
// lost CA stay valid until they expire: its root is in the bundle.
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

// ownBundle returns the bundle for the webhooks of servingcert's own namespace: the
// given bundle and the root of the interim CA. Nil unless leaves of an interim CA may
// be in use.
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

// lastBundle returns the unexpired roots of the bundle in the status.
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
