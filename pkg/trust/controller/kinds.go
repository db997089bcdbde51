package controller

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// kindView is what is known of one kind, and where its targets can be read.
type kindView struct {
	trust.KindStatus
	served  target.Kind   // in the version that is served; zero until it was watched once
	targets client.Reader // a filled cache of them; nil until then
}

// kinds is the state of all kinds.
type kinds struct {
	mu      sync.Mutex
	views   []kindView
	changed func() // called after something changed, without the lock
}

func newKinds(all []target.Kind, changed func()) *kinds {
	k := &kinds{changed: changed}
	for _, kind := range all {
		k.views = append(k.views, kindView{KindStatus: trust.KindStatus{Name: kind.Name, State: trust.KindStarting, Message: "not checked yet"}})
	}
	return k
}

// all returns them in the order of target.Kinds.
func (k *kinds) all() []kindView {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.views)
}

// set changes the state of a kind and reports whether it is another than before.
func (k *kinds) set(name string, state trust.KindState, message string) bool {
	return k.update(name, func(v *kindView) { v.State, v.Message = state, message })
}

// watched records that the kind's targets are seen in a cache.
func (k *kinds) watched(served target.Kind, targets client.Reader) bool {
	return k.update(served.Name, func(v *kindView) {
		v.State, v.Message, v.served, v.targets = trust.KindWatched, "", served, targets
	})
}

func (k *kinds) update(name string, how func(*kindView)) bool {
	k.mu.Lock()
	i := slices.IndexFunc(k.views, func(v kindView) bool { return v.Name == name })
	before := k.views[i].KindStatus
	how(&k.views[i])
	now := k.views[i].KindStatus
	k.mu.Unlock()
	if before == now {
		return false
	}
	k.changed()
	return before.State != now.State
}
