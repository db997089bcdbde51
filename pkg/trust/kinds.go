package trust

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KindState says whether the targets of a kind can be seen. Its values are those
// of a metric's label state.
type KindState string

const (
	// KindStarting: the API server has not been asked yet, or has not answered, or
	// the cache is being filled.
	KindStarting KindState = "starting"
	// KindWatched: they are seen.
	KindWatched KindState = "watched"
	// KindAbsent: the API server has no such kind, so that there are no targets.
	KindAbsent KindState = "absent"
	// KindRefused: it does not let us list or watch them. There may be some that
	// do not hold the bundle: they count as one that refuses.
	KindRefused KindState = "refused"
)

// KindStates lists all, in the order of the documentation.
func KindStates() []KindState {
	return []KindState{KindStarting, KindWatched, KindAbsent, KindRefused}
}

// kindView is what is known of one kind.
type kindView struct {
	name    string
	state   KindState
	message string        // for people; "" if the kind is watched
	served  Target        // in the version that is served; zero until it was watched once
	targets client.Reader // a filled cache of them; nil until then
}

// kinds is the state of all kinds.
type kinds struct {
	mu      sync.Mutex
	views   []kindView
	changed func() // called after something changed, without the lock
}

func newKinds(all []Target, changed func()) *kinds {
	k := &kinds{changed: changed}
	for _, t := range all {
		k.views = append(k.views, kindView{name: t.Kind, state: KindStarting, message: "not looked at yet"})
	}
	return k
}

// all returns them in the order of Targets.
func (k *kinds) all() []kindView {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.views)
}

// set changes the state of a kind and reports whether it is another than before.
func (k *kinds) set(name string, state KindState, message string) bool {
	return k.update(name, func(v *kindView) { v.state, v.message = state, message })
}

// watched says that the kind's targets are seen in a cache.
func (k *kinds) watched(served Target, targets client.Reader) bool {
	return k.update(served.Kind, func(v *kindView) {
		v.state, v.message, v.served, v.targets = KindWatched, "", served, targets
	})
}

func (k *kinds) update(name string, how func(*kindView)) bool {
	k.mu.Lock()
	i := slices.IndexFunc(k.views, func(v kindView) bool { return v.name == name })
	before := k.views[i]
	how(&k.views[i])
	now := k.views[i]
	k.mu.Unlock()
	if before.state == now.state && before.message == now.message {
		return false
	}
	k.changed()
	return before.state != now.state
}

// starting reports whether the state of some kind is not known yet.
func starting(views []kindView) bool {
	return slices.ContainsFunc(views, func(v kindView) bool { return v.state == KindStarting })
}
