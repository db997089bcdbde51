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

// fault is a crash that is the fault of an attempt.
type fault struct {
	pod      *pods.Facts
	crash    pods.Crash
	evidence Evidence
	line     string // that is the evidence, as an event may repeat it
}

// stronger orders faults: first the one that says the most.
func stronger(a, b fault) int {
	order := []Evidence{EvidenceNamed, EvidenceUsage, EvidencePlaintext, EvidenceRunsWithout, EvidenceSilent}
	return cmp.Or(cmp.Compare(slices.Index(order, a.evidence), slices.Index(order, b.evidence)), cmp.Compare(a.pod.Name, b.pod.Name))
}

// judge returns the fault if the pod's container crashes because of the attempt, which
// was made with it. siblings is what the pods of its template show, itself among them.
func judge(pod *pods.Facts, a api.ContainerAttempt, siblings *kin, now time.Time) (fault, bool) {
	crash := crashOf(pod, a.Container)
	if crash == nil || !crash.Resumed.IsZero() || !fails(*crash, now) || pod.Ready || pod.DeletionTimestamp != nil {
		return fault{}, false
	}
	said := siblings.read(*crash)
	f := fault{pod: pod, crash: *crash, evidence: said.evidence, line: said.line}
	switch f.evidence {
	case EvidenceNamed:
		return f, true
	case EvidenceOther:
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

// maxExitCode is the highest exit code of a program that ended by itself: above it are
// those of signals, which a failed liveness probe or a lack of memory sends.
const maxExitCode = 128

// notStarted are the reasons with which the kubelet and container runtimes say that a
// container ended, although its program did not end by itself.
var notStarted = []string{"OOMKilled", "ContainerCannotRun", "StartError"}

// fails reports whether the container exits by itself again and again. One that runs
// now may do so for a moment only.
func fails(c pods.Crash, now time.Time) bool {
	return c.Restarts >= 1 && c.ExitCode > 0 && c.ExitCode <= maxExitCode && c.Signal == 0 && !slices.Contains(notStarted, c.Reason) &&
		(c.Resumed.IsZero() || now.Sub(c.Resumed) <= pods.ShortRun)
}

// steady reports whether the pod is ready and does not crash. Without a readiness probe
// a pod that crashes is ready for a moment after each start.
func steady(pod *pods.Facts) bool { return pod.Ready && pod.Crashes == nil }

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
