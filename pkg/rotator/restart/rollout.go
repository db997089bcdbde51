package restart

import (
	"time"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// takenOver is the age of a restart up to which its rollout is attributed to another replica of the
// rotator.
const takenOver = 24 * time.Hour

// rollout is a workload that is rolling out. While it progresses, it is the only one of its
// namespace. If it is stuck after a restart for a certificate, no other workload of its namespace
// is restarted, because the next rollout would probably be stuck too.
type rollout struct {
	// ours: it was restarted for a certificate.
	ours bool
	// place: it has one of the --max-restarts places. It gets one when the rotator restarts it, and
	// loses it when it is stuck or after Limits.PlaceFor. It never gets it back, because the
	// workload's owner controls when rollouts begin, progress and end.
	place bool
	// unconfirmed: it may have been restarted, by another leader or by a write without a response.
	unconfirmed bool
	begun       time.Time // or when it was first seen
	counts      counts
	progressed  time.Time
	stuck       bool
}

// next returns the current state of the rollout; false if it has ended.
func (r rollout) next(s Situation, st WorkloadStatus) (rollout, bool) {
	switch {
	case st.Problem != "":
		st.progress.counts = r.counts // unknown, so unchanged
	case !st.rolls():
		return rollout{}, false
	case r.unconfirmed && s.Now.Sub(st.restartedAt) > takenOver:
		return rollout{}, false
	}
	if r.begun.IsZero() {
		r.begun = s.Now
	}
	if at := st.restartedAt; (r.unconfirmed || r.place) && !at.IsZero() && at.Before(r.begun) {
		r.begun = at
	}
	r.ours = r.ours || r.unconfirmed
	r.unconfirmed = false
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

func (s WorkloadStatus) rolls() bool { return !s.Gone && !s.deleting && !s.progress.done }

// track returns the rollouts of the namespace, and adds those that are stuck now to d.
func (s Situation) track(candidates []serving.StaleWorkload, d *Decision) map[pods.Workload]rollout {
	out := map[pods.Workload]rollout{}
	for w, before := range s.rollouts {
		s.follow(w, before, out, d)
	}
	for _, w := range candidates {
		st, read := s.Workloads[w.Workload]
		_, known := out[w.Workload]
		another := w.Workload.UID != "" && w.Workload.UID != st.uid
		if !read || known || another || st.Problem != "" {
			continue
		}
		ours := st.restartedSince(w.Since)
		// If it was restarted after this process became the leader, someone else restarted it.
		s.follow(w.Workload, rollout{ours: ours, place: ours && !st.restartedAt.After(s.leading)}, out, d)
	}
	return out
}

func (s Situation) follow(w pods.Workload, before rollout, out map[pods.Workload]rollout, d *Decision) {
	after, goesOn := before.next(s, s.Workloads[w])
	if !goesOn {
		return
	}
	out[w] = after
	if after.stuck && after.ours && !before.stuck {
		d.Stuck = append(d.Stuck, stuckOf(w, s.Workloads[w]))
	}
}

func stuckOf(w pods.Workload, st WorkloadStatus) Stuck {
	out := Stuck{Workload: w, UID: st.uid, Message: "it is not progressing", Progress: st.progress.counts.String()}
	switch {
	case st.paused:
		out.Message = "it was paused in the meantime"
	case st.progress.exceeded:
		out.Message = "it exceeded its progress deadline"
	}
	return out
}
