package controller

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer"
)

// keptSecrets has the names of the managed Secrets that each Service owns, without those of another
// issuer. Unlike an index of the cache, it is sorted: each reconcile reads the first names of up to a
// hundred Services, which may own thousands of Secrets each.
type keptSecrets struct {
	mu    sync.RWMutex
	names map[types.NamespacedName][]string // by the namespace and the UID of the Service
}

func newKeptSecrets() *keptSecrets { return &keptSecrets{names: map[types.NamespacedName][]string{}} }

// change updates the names after a change of a Secret; before or after may be nil.
func (k *keptSecrets) change(before, after *signer.SecretFacts) {
	was, is := ownersIn(before), ownersIn(after)
	if slices.Equal(was, is) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, owner := range was {
		names := k.names[owner]
		if at, there := slices.BinarySearch(names, before.Name); there {
			k.names[owner] = slices.Delete(names, at, at+1)
		}
		if len(k.names[owner]) == 0 {
			delete(k.names, owner)
		}
	}
	for _, owner := range is {
		names := k.names[owner]
		if at, there := slices.BinarySearch(names, after.Name); !there {
			k.names[owner] = slices.Insert(names, at, after.Name)
		}
	}
}

// ownersIn returns the keys of the Services that own a Secret, which may be nil.
func ownersIn(f *signer.SecretFacts) (owners []types.NamespacedName) {
	if f == nil || f.OfAnotherIssuer() {
		return nil
	}
	for _, r := range f.ServiceOwners() {
		owners = append(owners, types.NamespacedName{Namespace: f.Namespace, Name: string(r.UID)})
	}
	return owners
}

// of returns the Secrets that the Service owns, except one.
func (k *keptSecrets) of(svc *corev1.Service, except string) signer.Kept {
	k.mu.RLock()
	defer k.mu.RUnlock()
	all := k.names[types.NamespacedName{Namespace: svc.Namespace, Name: string(svc.UID)}]
	has := func(name string) bool { _, there := slices.BinarySearch(all, name); return there }
	first := slices.DeleteFunc(slices.Clone(all[:min(len(all), api.MaxKept+1)]), func(name string) bool { return name == except })
	kept := signer.Kept{Names: first[:min(len(first), api.MaxKept)], All: len(all)}
	if has(except) {
		kept.All--
	}
	if len(kept.Names) == kept.All {
		return kept
	}
	ready := state.ReadyOf(svc)
	for _, name := range slices.Sorted(slices.Values(append(ready.Kept, ready.Secret))) {
		if name > kept.Names[len(kept.Names)-1] && name != except && has(name) {
			kept.Names = append(kept.Names, name)
		}
	}
	return kept
}
