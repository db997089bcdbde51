package correct

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

const (
	// patience is how long a container may run without being ready before it is
	// dialled: programs take their time until they listen.
	patience = 20 * time.Second
	// pause is between two dials of a pod.
	pause = time.Minute
)

// judgeUnready returns the fault if the pod's container, with which the attempt was made,
// is not ready because it serves plaintext. answers are the latest of each port. If the
// pod is to be dialled, wait is until then, and due is true if that is now.
func judgeUnready(pod *pods.Facts, a api.ContainerAttempt, answers []probe.Answer, siblings *kin, now time.Time) (f fault, blamed, due bool, wait time.Duration) {
	u := pod.Unready
	if u == nil || u.Container != a.Container || pod.Ready || pod.DeletionTimestamp != nil || !pod.IP.IsValid() || siblings.serves(a, false) {
		return fault{}, false, false, 0
	}
	from, last := u.Started.Add(patience), time.Time{}
	for _, answer := range answers {
		if answer.At.After(last) {
			last = answer.At
		}
		if answer.Kind == probe.Plaintext && !answer.At.Before(from) && slices.Contains(u.Ports, answer.Port) {
			return fault{
				pod: pod, crash: pods.Crash{Container: a.Container}, evidence: EvidencePlaintext,
				line: fmt.Sprintf("answers in plaintext on port %d", answer.Port),
			}, true, false, 0
		}
	}
	if next := last.Add(pause); !last.Before(from) && next.After(from) {
		from = next
	}
	wait = from.Sub(now)
	return fault{}, false, wait <= 0, max(wait, 0)
}

// visit returns how the pod is dialled. Its key names no Secret. answers are the latest
// of each port.
func visit(pod *pods.Facts, answers []probe.Answer) probe.Visit {
	return probe.Visit{
		Key:     probe.Key{Secret: types.NamespacedName{Namespace: pod.Namespace}, Pod: pod.UID},
		Address: pod.IP, HostNetwork: pod.HostNetwork, OnNode: pod.OnNode, Ports: probe.Order(pod.Unready.Ports, answers),
	}
}
