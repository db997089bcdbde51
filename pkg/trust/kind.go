package trust

import "slices"

// KindState is whether the targets of a kind can be watched. Its values are those of a
// metric's label state.
type KindState string

const (
	// KindStarting: the API server has not answered yet, or the cache is being filled.
	KindStarting KindState = "starting"
	// KindWatched: they are in a cache.
	KindWatched KindState = "watched"
	// KindAbsent: the API server has no such kind, so that there are no targets.
	KindAbsent KindState = "absent"
	// KindRefused: listing or watching them is forbidden. Some may not hold the bundle:
	// together they count as one target that refuses it.
	KindRefused KindState = "refused"
)

// KindStates lists all, in the order of the documentation.
func KindStates() []KindState {
	return []KindState{KindStarting, KindWatched, KindAbsent, KindRefused}
}

// KindStatus is the state of a kind of target.
type KindStatus struct {
	Name    string
	State   KindState
	Message string // for people; "" if the kind is watched
}

// starting reports whether the state of some kind is not known yet.
func starting(kinds []KindStatus) bool {
	return slices.ContainsFunc(kinds, func(k KindStatus) bool { return k.State == KindStarting })
}

// unseenTargets returns the evaluation of a kind whose targets cannot be watched, and
// true; false if they can. Together they count as one target: one of them may not hold
// the bundle.
func (k KindStatus) unseenTargets() (Evaluation, bool) {
	switch k.State {
	case KindStarting:
		return Evaluation{StatePending, ReasonUnavailable, k.Message}, true
	case KindRefused:
		return Evaluation{StateRefuses, ReasonForbidden, k.Message}, true
	}
	return Evaluation{}, false
}
