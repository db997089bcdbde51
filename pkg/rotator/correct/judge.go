package correct

import (
	"cmp"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// EvidenceRunsWithout is that the log says something else, but a pod of the same template
// is ready without the attempt.
const EvidenceRunsWithout Evidence = "runs without"

// EvidencePlaintext is that the container runs, and answers in plaintext where its probes
// ask by HTTPS: a program that ignores what it does not know.
const EvidencePlaintext Evidence = "plaintext"

// fault is a crash, or a run without serving, that is the fault of an attempt.
type fault struct {
	pod      *pods.Facts
	crash    pods.Crash
	evidence Evidence
	line     string // that is the evidence, as an event may repeat it
	// deletes: the pod is in a state in which the rotator may delete it.
	deletes bool
}

// stronger orders faults: first the one that says the most.
func stronger(a, b fault) int {
	order := []Evidence{EvidenceNamed, EvidenceUsage, EvidencePlaintext, EvidenceRunsWithout, EvidenceSilent}
	return cmp.Or(cmp.Compare(slices.Index(order, a.evidence), slices.Index(order, b.evidence)), cmp.Compare(a.pod.Name, b.pod.Name))
}

// judge returns the fault if the pod's container crashes because of the attempt, which
// was made with it. siblings is what the pods of its template show, itself among them.
func judge(pod *pods.Facts, a api.ContainerAttempt, siblings *kin) (fault, bool) {
	crash := crashOf(pod, a.Container)
	if crash == nil || !crash.Resumed.IsZero() || !exits(*crash) || pod.Ready || pod.DeletionTimestamp != nil {
		return fault{}, false
	}
	said := siblings.read(*crash)
	f := fault{pod: pod, crash: *crash, evidence: said.evidence, line: said.line, deletes: crash.Waiting}
	byItself := crash.ExitCode <= maxExitCode || f.evidence == EvidenceUsage
	switch {
	case f.evidence == EvidenceNamed: // however long it ran, and whatever its exit code
		return f, true
	case !crash.Short() || !byItself:
		return fault{}, false
	case f.evidence == EvidenceOther:
		f.evidence = EvidenceRunsWithout
		return f, siblings.serves(a, true)
	}
	return f, !ranBefore(pod.Crashes.Begun, *crash) && !siblings.serves(a, false) && !siblings.failsWithout(*crash)
}

// crashOf returns the crash of the pod's container, or nil.
func crashOf(pod *pods.Facts, container string) *pods.Crash {
	if pod.Crashes == nil {
		return nil
	}
	for i := range pod.Crashes.Containers {
		if c := &pod.Crashes.Containers[i]; c.Container == container {
			return c
		}
	}
	return nil
}

// maxExitCode is the highest exit code of a program of which it is sure that it ended by
// itself: above it are those of signals, though some programs choose 255.
const maxExitCode = 128

// killed are the exit codes of programs that were ended by SIGINT, SIGKILL or SIGTERM: by a
// failed liveness probe, a lack of memory, or a person. Those of other signals are the
// program's own doing, such as 134 of SIGABRT.
var killed = []int32{128 + 2, 128 + 9, 128 + 15}

// notStarted are the reasons with which the kubelet and container runtimes say that a
// container ended, although its program did not end by itself.
var notStarted = []string{"OOMKilled", "ContainerCannotRun", "StartError"}

// exits reports whether the container ends by itself again and again.
func exits(c pods.Crash) bool {
	return c.Restarts >= 1 && c.Signal == 0 && !slices.Contains(killed, c.ExitCode) && !slices.Contains(notStarted, c.Reason)
}

// fails reports whether the container exits by itself with an error, soon, and again and
// again. One that runs now may do so for a moment only.
func fails(c pods.Crash, now time.Time) bool {
	return exits(c) && c.Short() && (c.Resumed.IsZero() || now.Sub(c.Resumed) <= pods.ShortRun)
}

// steady reports whether the pod is ready and does not crash. Without a readiness probe
// a pod that crashes, or is killed because of its liveness probe, is ready for a moment
// after each start.
func steady(pod *pods.Facts, now time.Time) bool {
	return pod.Ready && (pod.Crashes == nil || !slices.ContainsFunc(pod.Crashes.Containers, pods.Crash.Short)) && (pod.Unready == nil || !restarting(pod.Unready, now))
}

// How long a container that has crashed from the beginning may take to its latest crash:
// what kubelets wait before a restart (10 s, and twice as long each time, up to 5 min),
// its runs, and time to pull images.
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	pulling      = 10 * time.Minute
)

// ranBefore reports whether the container must have run for longer than it does now. A
// program that served with the attempt for hours exits for another reason. begun is when
// its first run could begin.
func ranBefore(begun time.Time, c pods.Crash) bool {
	longest, backoff := pulling, firstBackoff
	for range min(c.Restarts, 10_000) {
		longest += backoff + pods.ShortRun
		backoff = min(2*backoff, maxBackoff)
	}
	return !begun.IsZero() && c.Finished.Sub(begun) > longest+pods.ShortRun
}
