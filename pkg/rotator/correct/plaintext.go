package correct

import (
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

const (
	// pause is between two dials of a pod that was started a short time ago: it may listen
	// late, and its liveness probe may have it killed soon.
	pause = 3 * time.Second
	// batch is how many pods of a namespace are dialled that often. Of more, each is dialled
	// less often, but for its first dial.
	batch = 100
	// patience is for how long after a start a pod is dialled that often, and one that the
	// kubelet takes for ready is dialled at all.
	patience = 10 * time.Minute
	// longPause is between two dials after that, and of a pod that speaks TLS or is not to be
	// dialled.
	longPause = time.Minute
)

// judgeUnready returns the fault if the pod's container, with which the attempt was made,
// does not pass its probes because it serves plaintext. answers are the latest of each port, and
// pause is between two dials after a start. If the pod is to be dialled, wait is until then, and
// due is true if that is now.
func judgeUnready(pod *pods.Facts, a api.ContainerAttempt, answers []probe.Answer, siblings *kin, now time.Time, pause time.Duration) (f fault, blamed, due bool, wait time.Duration) {
	u := pod.Unready
	if u == nil || u.Container != a.Container || pod.Ready && !restarting(u, now) || pod.DeletionTimestamp != nil || !pod.IP.IsValid() || siblings.serves(a, false) {
		return fault{}, false, false, 0
	}
	if !restarting(u, now) {
		pause = longPause
	}
	next := u.Started
	for _, answer := range answers {
		switch {
		case answer.At.Before(u.Started): // of a run before
			continue
		case answer.Kind == probe.Plaintext && slices.Contains(u.Ports, answer.Port):
			return fault{
				pod: pod, crash: pods.Crash{Container: a.Container}, evidence: EvidencePlaintext,
				line: fmt.Sprintf("answers in plaintext on port %d", answer.Port), deletes: u.Ended.IsZero() || u.Waiting,
			}, true, false, 0
		case answer.Kind == probe.TLS, answer.Kind == probe.NotVerified: // no suspect, or not to be dialled
			pause = longPause
		}
		if at := answer.At.Add(pause); at.After(next) {
			next = at
		}
	}
	if !u.Ended.IsZero() {
		return fault{}, false, false, 0 // nobody listens
	}
	wait = min(next.Sub(now), pause) // of a node whose clock is ahead, too
	return fault{}, false, wait <= 0, max(wait, 0)
}

// restarting reports whether a container that is ready was restarted a short time ago, so
// that it may be one that its liveness probe has killed again and again.
func restarting(u *pods.Unready, now time.Time) bool { return now.Sub(u.Started) < patience }

// pauseFor returns the time between two dials of a pod that was started a short time ago, of a
// namespace with these pods.
func pauseFor(all []*pods.Facts) time.Duration {
	unready := 0
	for _, pod := range all {
		if pod.Unready != nil {
			unready++
		}
	}
	return min(pause*time.Duration(1+unready/batch), longPause)
}

// visit returns how the pod is dialled. Its key names no Secret. answers are the latest
// of each port.
func visit(pod *pods.Facts, answers []probe.Answer) probe.Visit {
	return probe.Visit{
		Key:     probe.Key{Of: pods.NamespacedKey{Namespace: pod.Namespace}, Pod: pod.UID},
		Address: pod.IP, HostNetwork: pod.HostNetwork, OnNode: pod.OnNode, Ports: probe.Order(pod.Unready.Ports, answers),
	}
}
