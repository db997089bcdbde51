package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// MaxListed bounds how many targets api.TrustNotHolding names: refusing ones first,
// as they need a person.
const MaxListed = 50

// Status is what the trust status says.
type Status struct {
	BundleHash string
	Targets    int
	Holding    int
	Refusing   int
	NotHolding []string // at most MaxListed lines, and one that counts the rest
	Problem    string
}

// Data returns the ConfigMap's data. It holds no time, so that equal status is
// equal data, and every key always, so that none that someone else set survives.
func (s Status) Data() map[string]string {
	return map[string]string{
		api.TrustBundleHash: s.BundleHash,
		api.TrustTargets:    strconv.Itoa(s.Targets),
		api.TrustHolding:    strconv.Itoa(s.Holding),
		api.TrustPending:    strconv.Itoa(s.Targets - s.Holding - s.Refusing),
		api.TrustRefusing:   strconv.Itoa(s.Refusing),
		api.TrustNotHolding: strings.Join(s.NotHolding, "\n"),
		api.TrustProblem:    s.Problem,
	}
}

// sameData reports whether a ConfigMap says all that data says. Keys that others
// added do not count.
func sameData(has, data map[string]string) bool {
	for k, v := range data {
		if got, ok := has[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// seen is a target as the caches have it.
type seen struct {
	target
	held   Judgement // zero if there is no bundle to compare with
	record record    // of the last attempt to write it; zero if there was none
}

// judgement is what the cache says; the last attempt only adds why a target that
// does not hold this bundle does not.
func (s seen) judgement(bundleHash string) Judgement {
	switch {
	case s.held.State == "":
		return Judgement{StatePending, ReasonNoSource, "no bundle to compare with"}
	case s.held.State == StatePending && s.record.hash == bundleHash && s.record.State == StateRefuses:
		return s.record.Judgement
	}
	return s.held
}

// summary is the status, and the numbers for the metrics.
type summary struct {
	status   Status
	kinds    map[string]KindState
	counts   map[string]map[State]int  // by kind
	refusing map[string]map[Reason]int // by kind
}

// summarize is pure.
func summarize(kinds []kindView, bundle Bundle, source error, targets []seen) summary {
	s := summary{
		status:   Status{BundleHash: bundle.Hash},
		kinds:    map[string]KindState{},
		counts:   map[string]map[State]int{},
		refusing: map[string]map[Reason]int{},
	}
	if source != nil {
		s.status.Problem = source.Error()
	}
	var open []openTarget
	for _, v := range kinds {
		s.kinds[v.name], s.counts[v.name], s.refusing[v.name] = v.state, map[State]int{}, map[Reason]int{}
		if j, unseen := unseenTargets(v); unseen {
			open = append(open, openTarget{target{v.name, types.NamespacedName{Name: allOfKind}}, j})
		}
	}
	for _, t := range targets {
		j := t.judgement(bundle.Hash)
		s.counts[t.kind][j.State]++
		switch j.State {
		case StateUnsuitable:
		case StateHolds:
			s.status.Holding++
		default:
			open = append(open, openTarget{t.target, j})
		}
	}
	for _, o := range open {
		if o.State == StateRefuses {
			s.status.Refusing++
			s.refusing[o.kind][o.Reason]++
		}
	}
	s.status.Targets = s.status.Holding + len(open)
	s.status.NotHolding = listed(open)
	return s
}

// allOfKind stands for targets that cannot be seen; no object has this name.
const allOfKind = "(all)"

// unseenTargets judges a kind whose targets cannot be seen, and reports whether
// that is so. Together they count as one target: there may be one that does not
// hold the bundle.
func unseenTargets(v kindView) (Judgement, bool) {
	switch v.state {
	case KindStarting:
		return Judgement{StatePending, ReasonUnavailable, v.message}, true
	case KindRefused:
		return Judgement{StateRefuses, ReasonForbidden, v.message}, true
	}
	return Judgement{}, false
}

// openTarget is a target that does not hold the bundle.
type openTarget struct {
	target
	Judgement
}

func (o openTarget) String() string {
	message := strings.Join(strings.Fields(o.Message), " ") // one line
	return fmt.Sprintf("%s %s: %s: %s", o.kind, objectName(o.key), o.Reason, shorten(message))
}

func objectName(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

func listed(open []openTarget) []string {
	slices.SortFunc(open, func(a, b openTarget) int {
		refuses := func(o openTarget) int {
			if o.State == StateRefuses {
				return 0
			}
			return 1
		}
		return cmp.Or(refuses(a)-refuses(b), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name, b.key.Name))
	})
	var lines []string
	for i, o := range open {
		if i == MaxListed {
			return append(lines, fmt.Sprintf("and %d more", len(open)-MaxListed))
		}
		lines = append(lines, o.String())
	}
	return lines
}
