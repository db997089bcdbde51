package ca

import (
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// origins maps each origin to its name in the history.
var origins = map[Origin]string{OriginOwn: api.OriginOwn, OriginImport: api.OriginImported, OriginRemote: api.OriginRemote}

// historyOf returns the stored generations, preceded by those that only the status
// still records. The latter are only for people: no decision uses them, since anyone
// who may write ConfigMaps can change them.
func historyOf(state State, s Situation) []api.CAGenerationRecord {
	published := s.publishedHistory()
	var history, known []api.CAGenerationRecord
	for _, g := range state.Generations {
		known = append(known, recordOf(g))
	}
	for _, r := range published {
		if i := slices.IndexFunc(known, r.Same); i >= 0 {
			known[i].RetiredAt = retiredAt(r, known[i].Retired, s)
			continue
		}
		r.RetiredAt, r.Retired = retiredAt(r, true, s), true
		history = append(history, r)
	}
	slices.SortStableFunc(history, byNumber)
	room := max(0, api.MaxCAGenerations-len(known))
	history = append(history[max(0, len(history)-room):], known...)
	slices.SortStableFunc(history, byNumber)
	return api.NewCAGenerations(history)
}

func byNumber(a, b api.CAGenerationRecord) int { return a.Number - b.Number }

// publishedHistory returns what this process last published, or what the status holds
// if the process has just started.
func (s Situation) publishedHistory() []api.CAGenerationRecord {
	switch {
	case s.LastStatus != nil:
		return s.LastStatus.Generations
	case s.Status != nil:
		return s.Status.Generations
	}
	return nil
}

// retiredAt returns when the generation with the published record r was retired: the
// recorded time, or now if it has just been retired.
func retiredAt(r api.CAGenerationRecord, retired bool, s Situation) (at time.Time) {
	switch {
	case !retired:
		return time.Time{}
	case r.Retired:
		return r.RetiredAt
	}
	return seconds(s.Now)
}

func recordOf(g Generation) api.CAGenerationRecord {
	return api.CAGenerationRecord{
		Number: g.Number, Origin: origins[g.Origin], Root: pki.Fingerprint(g.Root), Why: g.Why,
		MadeAt: g.MadeAt, TrustedAt: g.TrustedAt, SignsSince: g.SignsSince, UsedUntil: g.UsedUntil, NotAfter: g.Ends(),
		Retired: g.Retired,
	}
}
