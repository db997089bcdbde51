package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/bounded"
)

// What a reconcile reads of the other Secrets that its Services own does not depend on how many
// there are.
func TestManySecretsOfManyServicesCostLittle(t *testing.T) {
	const services = 20
	var owners []metav1.OwnerReference
	s := signer.Situation{Key: types.NamespacedName{Namespace: "shop", Name: "s1"}}
	for i := range services {
		svc := service(fmt.Sprint("web", i))
		svc.UID = types.UID(fmt.Sprint("uid", i))
		s.Owners = append(s.Owners, svc)
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID})
	}
	cost := func(secrets int) uint64 {
		c := withOwned(t, owners, slices.Repeat([]issue.Issued{{}}, secrets)...)
		return bounded.Allocated(func() { c.gatherKept(&s) })
	}
	few, many := cost(200), cost(2000)
	assert.Less(t, many, 2*few)
}

// Whatever changes, the names are those of the Secrets that the Service owns: its own namespace's,
// without those of another issuer. Those that its condition names are among them.
func TestKeptSecretsAreFollowed(t *testing.T) {
	web := service("web")
	ready := state.Ready{Secret: "s179"}.WithKept([]string{"s150", "s178", "s101", "gone"})
	web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Reason: "Issued"}, ready).Both()
	ownedBy := func(key types.NamespacedName, uids ...types.UID) *signer.SecretFacts {
		f := &signer.SecretFacts{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		for _, uid := range uids {
			f.OwnerReferences = append(f.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "x", UID: uid})
		}
		return f
	}
	rapid.Check(t, func(t *rapid.T) {
		k, secrets := newKeptSecrets(), map[types.NamespacedName]*signer.SecretFacts{}
		change := func(key types.NamespacedName, after *signer.SecretFacts) {
			k.change(secrets[key], after)
			if secrets[key] = after; after == nil {
				delete(secrets, key)
			}
		}
		for i := range 81 {
			key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("s", 180-i)}
			change(key, ownedBy(key, web.UID))
		}
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			key := types.NamespacedName{
				Namespace: rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace"), Name: fmt.Sprint("s", rapid.IntRange(100, 180).Draw(t, "name")),
			}
			after := ownedBy(key, rapid.SliceOf(rapid.SampledFrom([]types.UID{web.UID, "uid-of-api"})).Draw(t, "owners")...)
			switch rapid.IntRange(0, 5).Draw(t, "kept") {
			case 0:
				after = nil
			case 1:
				after.Leaf.Sum, after.Annotations = [32]byte{1}, map[string]string{api.AnnotationIssuedLeaf: "another"}
			}
			change(key, after)
		}
		var all, want []string
		for key, f := range secrets {
			if key.Namespace == "shop" && key.Name != "s101" && f.OwnedBy(web.UID) && !f.OfAnotherIssuer() {
				all = append(all, key.Name)
			}
		}
		slices.Sort(all)
		for i, name := range all {
			if i < api.MaxKept || ready.Has(name) {
				want = append(want, name)
			}
		}
		require.Equal(t, signer.Kept{Names: want, All: len(all)}, k.of(web, "s101"))
	})
}
