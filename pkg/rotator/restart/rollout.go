package restart

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// takenOver is how long ago a workload may have been restarted for its rollout to
// be taken for one that another replica started and watched.
const takenOver = 24 * time.Hour

// rollout is a workload that is rolling out. As long as it progresses, it is the only
// one of its namespace. If it gets stuck and was restarted for a certificate, no other
// workload of its namespace is restarted either, as the next rollout would probably get
// stuck as well.
type rollout struct {
	// ours: it was restarted for a certificate.
	ours bool
	// place: it has one of the --max-restarts places. It gets one when the rotator
	// restarts it, gives it back when it is stuck or has had it for Limits.PlaceFor, and
	// does not get it again: its owner decides when a rollout ends, how often it seems to
	// progress, and when the next one begins.
	place bool
	// doubt: it may have been restarted, by another leader or by a write whose answer
	// was lost.
	doubt      bool
	begun      time.Time // or when it was first seen
	counts     counts
	progressed time.Time
	stuck      bool
}

// next returns what the rollout is now, or false if it is over.
func (r rollout) next(s Situation, st Standing) (rollout, bool) {
	switch {
	case st.Problem != "":
		st.progress.counts = r.counts // nothing is known of it
	case !st.rolls():
		return rollout{}, false
	case r.doubt && s.Now.Sub(st.restartedAt) > takenOver:
		return rollout{}, false
	}
	if r.begun.IsZero() {
		r.begun = s.Now
	}
	if at := st.restartedAt; (r.doubt || r.place) && !at.IsZero() && at.Before(r.begun) {
		r.begun = at
	}
	r.ours = r.ours || r.doubt
	r.doubt = false
	if r.progressed.IsZero() || r.counts != st.progress.counts {
		r.progressed = s.Now
	}
	r.counts = st.progress.counts
	patience := max(s.Limits.StuckAfter, st.progress.deadline)
	r.stuck = st.progress.exceeded || st.paused || !s.Now.Before(r.progressed.Add(patience))
	r.place = !r.stuck && r.hasPlace(s.Now, s.Limits)
	return r, true
}

// hasPlace reports whether the rollout has one of the --max-restarts places.
func (r rollout) hasPlace(now time.Time, limits Limits) bool {
	return r.place && now.Before(r.begun.Add(limits.PlaceFor))
}

func (s Standing) rolls() bool { return !s.Gone && !s.deleting && !s.progress.done }

// track returns the rollouts of the namespace, and notes which of them got stuck.
func (s Situation) track(candidates []serving.StaleWorkload, d *Decision) map[pods.Workload]rollout {
	out := map[pods.Workload]rollout{}
	for w, before := range s.rollouts {
		s.follow(w, before, out, d)
	}
	for _, w := range candidates {
		st, read := s.Standings[w.Workload]
		_, known := out[w.Workload]
		another := w.Workload.UID != "" && w.Workload.UID != st.uid
		if !read || known || another || st.Problem != "" {
			continue
		}
		ours := st.restartedSince(w.Since)
		// What was restarted after this process began to lead, somebody else restarted.
		s.follow(w.Workload, rollout{ours: ours, place: ours && !st.restartedAt.After(s.leading)}, out, d)
	}
	return out
}

func (s Situation) follow(w pods.Workload, before rollout, out map[pods.Workload]rollout, d *Decision) {
	after, goesOn := before.next(s, s.Standings[w])
	if !goesOn {
		return
	}
	out[w] = after
	if after.stuck && after.ours && !before.stuck {
		d.Stuck = append(d.Stuck, stuckOf(w, s.Standings[w]))
	}
}

func stuckOf(w pods.Workload, st Standing) Stuck {
	out := Stuck{Workload: w, UID: st.uid, Message: "it is not progressing", Progress: st.progress.counts.String()}
	switch {
	case st.paused:
		out.Message = "it was paused meanwhile"
	case st.progress.exceeded:
		out.Message = "it exceeded its progress deadline"
	}
	return out
}
