package correct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// keep is how long a fact is kept although no pod has the attempt: a workload that is
// scaled down for the night has no pods.
const keep = 24 * time.Hour

// ledger is the facts of a Service, and what becomes of them.
type ledger struct {
	facts state.Flags
	n     *namespace
}

// get returns the fact about the attempt with the workload's container, nil if there is none.
// What a program has said of itself holds for every container that runs it.
func (l *ledger) get(key groupKey) *state.Attempt {
	var own *state.Attempt
	for i := range l.facts {
		f := &l.facts[i]
		switch {
		case f.Attempt != key.attempt:
		case f.Verdict == state.VerdictWithheld && !f.OnTrial:
			return f
		case own == nil && f.Container == key.container && key.is(f.Workload):
			own = f
		}
	}
	return own
}

// is reports whether the name, as workloadName writes it, is that of the group's workload. All
// bare pods are one.
func (k groupKey) is(workload string) bool {
	if k.workload.Bare() {
		return strings.HasPrefix(workload, api.PodKind+"/")
	}
	return workload == k.workload.Kind+"/"+k.workload.Name
}

// enable withdraws what is withheld if the rotator only tells, and forgets what it only
// reported if it does not any more.
func (l *ledger) enable() {
	if l.n.Enabled {
		l.facts = slices.DeleteFunc(l.facts, func(f state.Attempt) bool { return f.Verdict == state.VerdictSuspected })
		return
	}
	for i := range l.facts {
		if f := &l.facts[i]; f.Verdict == state.VerdictWithheld {
			f.Verdict, f.Since = state.VerdictSuspected, l.now()
		}
	}
}

// decide changes the fact about the attempt. It returns the verdict if it is new, and
// false if there is no room for it.
func (l *ledger) decide(key groupKey, g *group) (verdict state.Verdict, room bool) {
	worst, blamed := g.worst(), state.VerdictSuspected
	if l.n.Enabled {
		blamed = state.VerdictWithheld
	}
	fact := l.get(key)
	switch {
	case fact == nil && worst == nil:
		return "", true
	case fact == nil:
		if !l.makeRoom() {
			return "", false
		}
		l.facts = append(l.facts, state.Attempt{Attempt: key.attempt, Verdict: blamed})
		fact = &l.facts[len(l.facts)-1]
	case fact.Verdict == state.VerdictWithheld:
		if worst != nil && worst.evidence == EvidenceNamed {
			fact.OnTrial = false
		}
		if !fact.OnTrial || g.failing == nil {
			return "", true
		}
		fact.Verdict, fact.Since, fact.OnTrial = state.VerdictCleared, l.now(), false
		return fact.Verdict, true
	case worst == nil, fact.Verdict == blamed, // suspected, and it is only told
		fact.Verdict == state.VerdictCleared && l.n.Now.Sub(fact.Since) < amnesty:
		return "", true
	}
	fact.Verdict, fact.Since, fact.OnTrial = blamed, l.now(), worst.evidence != EvidenceNamed
	fact.Workload, fact.Container = workloadName(worst), worst.crash.Container
	return fact.Verdict, true
}

func (l *ledger) now() time.Time { return l.n.Now.UTC().Truncate(time.Second) }

// workloadName names the workload, or the bare pod, for people.
func workloadName(f *fault) string {
	w := f.pod.Template.Value().Workload
	if w.Bare() {
		return api.PodKind + "/" + f.pod.Name
	}
	return w.Kind + "/" + w.Name
}

// makeRoom drops a fact if there are as many as a condition holds: the oldest of those
// that were kept long enough. A fact of pods that exist is not dropped: the attempt would
// be made again, and crash again.
func (l *ledger) makeRoom() bool {
	if len(l.facts) < state.MaxAttempts {
		return true
	}
	drop := -1
	for i, f := range l.facts {
		if !l.n.alive[f.Attempt] && l.n.Now.Sub(f.Since) > keep && (drop < 0 || f.Since.Before(l.facts[drop].Since)) {
			drop = i
		}
	}
	if drop < 0 {
		return false
	}
	l.facts = slices.Delete(l.facts, drop, drop+1)
	return true
}

// maxNamed is how many workloads a condition names in words.
const maxNamed = 5

// condition returns what the Service is to say, nil for nothing.
func condition(facts state.Flags) *state.Condition {
	for _, c := range []struct {
		verdict state.Verdict
		status  metav1.ConditionStatus
		reason  string
		text    string // with the containers, and "it was" or "they were"
	}{
		{state.VerdictWithheld, metav1.ConditionFalse, api.FlagsWithheld,
			"%s failed when %s given unrequested flags: new pods do not get them; say " + api.AnnotationMode + ": args or " + api.AnnotationCertFlag + " if they are right"},
		{state.VerdictSuspected, metav1.ConditionFalse, api.FlagsSuspected,
			"%s failed when %s given unrequested flags, and the rotator takes no action (--correct-flags=false): say " + api.AnnotationMode + ": env if they are wrong"},
		{state.VerdictCleared, metav1.ConditionTrue, api.FlagsKept,
			"%s failed when %s given unrequested flags, and without them too: new pods get them"},
	} {
		if names := named(facts, c.verdict); len(names) > 0 {
			were := "it was"
			if len(names) > 1 {
				were = "they were"
			}
			message := fmt.Sprintf(c.text, list(names), were)
			return state.Say(metav1.Condition{Type: api.ConditionFlags, Status: c.status, Reason: c.reason, Message: message}, facts)
		}
	}
	return nil
}

// named returns the containers with that verdict, sorted.
func named(facts state.Flags, verdict state.Verdict) []string {
	var names []string
	for _, f := range facts {
		if f.Verdict == verdict {
			names = append(names, strings.Replace(f.Workload, "/", " ", 1)+", container "+f.Container+",")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func list(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], " "), more)
	}
	return strings.Join(names, " ")
}
