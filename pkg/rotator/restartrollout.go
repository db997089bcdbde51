package rotator

import "time"

// takenOver is how long ago a workload may have been restarted for its rollout to
// be taken for one that another replica started and watched.
const takenOver = 24 * time.Hour

// rollout is a workload that is rolling out. As long as it gets on, it has a
// place among --max-restarts and is the only one of its namespace. One that is
// stuck gives its place back; if it was restarted for a certificate, it still
// holds its namespace, where the next would fare no better.
type rollout struct {
	// ours: it was restarted for a certificate.
	ours bool
	// doubt: a new leader saw pods of it that are not ready, no more.
	doubt      bool
	counts     counts
	progressed time.Time
	stuck      bool
}

// next returns what the rollout is now, or false if it is over.
func (r rollout) next(s restartSituation, st standing) (rollout, bool) {
	switch {
	case st.problem != "":
		st.progress.counts = r.counts // nothing is known of it
	case !st.rolls():
		return rollout{}, false
	case r.doubt && s.now.Sub(st.restartedAt) > takenOver:
		return rollout{}, false
	}
	r.ours = r.ours || r.doubt
	r.doubt = false
	if r.progressed.IsZero() || r.counts != st.progress.counts {
		r.progressed = s.now
	}
	r.counts = st.progress.counts
	patience := max(s.limits.stuckAfter, st.progress.deadline)
	r.stuck = st.progress.exceeded || st.paused || !s.now.Before(r.progressed.Add(patience))
	return r, true
}

func (s standing) rolls() bool { return !s.gone && !s.deleting && !s.progress.done }

// track returns the rollouts of the namespace, and notes which of them got stuck.
func (s restartSituation) track(candidates []staleWorkload, d *restartDecision) map[Workload]rollout {
	out := map[Workload]rollout{}
	for w, before := range s.rollouts {
		s.follow(w, before, out, d)
	}
	for _, w := range candidates {
		st, read := s.standings[w.Workload]
		_, known := out[w.Workload]
		another := w.Workload.UID != "" && w.Workload.UID != st.uid
		if !read || known || another || st.problem != "" {
			continue
		}
		s.follow(w.Workload, rollout{ours: st.restartedSince(w.Since)}, out, d)
	}
	return out
}

func (s restartSituation) follow(w Workload, before rollout, out map[Workload]rollout, d *restartDecision) {
	after, goesOn := before.next(s, s.standings[w])
	if !goesOn {
		return
	}
	out[w] = after
	if after.stuck && after.ours && !before.stuck {
		d.stuck = append(d.stuck, w)
	}
}
