package ca

import (
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// statusOf returns the content of the status ConfigMap. Without a readable CA, that is
// its last content: a bundle in use is not removed. If there was neither, it returns
// nil: the existence of a status means that there was a CA.
func statusOf(s Situation, d Decision) *api.CAStatus {
	var status api.CAStatus
	switch {
	case d.State != nil:
		status = stateStatus(*d.State, s)
	case s.Status == nil && d.Interim.State == nil:
		return nil
	case s.Status == nil: // the webhook cannot be called without it
	case s.LastStatus != nil:
		status = *s.LastStatus
	default:
		status = *s.Status
	}
	if d.Waiting != "" || d.State == nil {
		status.WaitingFor = d.Waiting
	}
	status.Problem, status.Warnings = ByClock(d.Problem, s.ClockErr), d.Warnings
	status.OwnBundle, status.OwnBundleHash = "", ""
	if own := d.Interim.ownBundle(s, status.Bundle); own != nil {
		status.OwnBundle, status.OwnBundleHash = string(own.PEM()), own.Hash()
	}
	return &status
}

// ByClock returns why a CA cannot sign: its problem, or if it has none, that the clock is not reliable. clockErr is why
// it is not, or nil.
func ByClock(problem api.CAMessage, clockErr error) api.CAMessage {
	if clockErr != nil && problem.Reason == "" {
		return api.CAMessage{Reason: api.CAClockSkew, Message: clockErr.Error()}
	}
	return problem
}

func stateStatus(state State, s Situation) api.CAStatus {
	signing, newest, bundle := state.signing(), state.Newest(), state.bundle(s.ExtraRoots, s.Now)
	phase, since := state.phase(s.Now, s.Reissue)
	status := api.CAStatus{
		Bundle:     string(bundle.PEM()),
		BundleHash: bundle.Hash(),
		Generation: signing.Number,
		NotAfter:   signing.Ends(),
		Phase:      phase,
		Since:      since,

		Generations: historyOf(state, s),
		ExtraRoots:  elements(s.ExtraRoots),
		Imported:    state.Import,
	}
	if seen := s.newestSeen(); seen > newest.Number {
		status.NewestSeen = seen
	}
	if phase != api.PhaseStable {
		status.Why = newest.Why
	}
	if state.waiting() {
		status.NextGeneration = newest.Number
	}
	if state.Rotation != (Rotation{}) {
		status.Rotation, status.RotationOutcome = state.Rotation.request(), state.Rotation.outcome(state.signed())
	}
	// The count of replaced certificates matters only while there may be older ones.
	if s.Leaves != nil && (phase == api.PhaseReissue || phase == api.PhaseRetire) {
		all, replaced := 0, s.Leaves[pki.Fingerprint(signing.Issuer())]
		for _, n := range s.Leaves {
			all += n
		}
		status.Certificates, status.Replaced = &all, &replaced
	}
	return status
}
