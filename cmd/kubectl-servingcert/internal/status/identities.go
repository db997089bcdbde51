package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Identities is the CA that signs identities of pods, in the form of -o json.
type Identities struct {
	CA
	// Held is the hash of the roots in ClusterTrustBundle api.ClientBundleName, with which servers verify
	// clients; empty if it has none, or if they were not read.
	Held string `json:"heldBundleHash,omitempty"`
	// NotSeen is why Held was not read, or empty.
	NotSeen string `json:"notSeen,omitempty"`
}

// IdentitiesOf returns the CA with this data of ConfigMap api.ClientCAStatusName. held is what the ClusterTrustBundle
// holds, nil if it does not exist, and notSeen why that is not known.
func IdentitiesOf(data map[string]string, held *api.TrustStatus, notSeen string) *Identities {
	i := &Identities{CA: ParseCA(data), NotSeen: notSeen}
	if held != nil {
		i.Held = held.BundleHash
	}
	return i
}

// Trust returns whether servers are given the roots that the CA has published.
func (i *Identities) Trust() string {
	const object = "ClusterTrustBundle " + api.ClientBundleName
	switch {
	case i.NotSeen != "":
		return object + ": " + i.NotSeen
	case i.Held == "":
		return object + " has no roots, so that pods whose proxy verifies clients do not start"
	case i.Held != i.BundleHash:
		return fmt.Sprintf("%s holds bundle %s, but the CA has published %s", object, Short(i.Held), Short(i.BundleHash))
	}
	return object + " holds the bundle"
}

// OldIdentities counts the pods that were created until a time, and show an identity. Their kubelets may have renewed
// it since.
type OldIdentities struct {
	Pods      int
	Workloads []string // as in workload.String, sorted
}

// String returns a line with the counts and the first names.
func (o OldIdentities) String() string {
	return fmt.Sprintf("%s of %s: %s", api.Count(o.Pods, "pod"), api.Count(len(o.Workloads), "workload"), Listed(o.Workloads))
}

// CountOldIdentities returns the consumers with an identity that were created until a time, in whole seconds as that of
// their creation; all of them if it is zero.
func CountOldIdentities(consumers []Consumer, until time.Time) (out OldIdentities) {
	for w, pods := range identified(consumers, until) {
		out.Pods += pods
		out.Workloads = append(out.Workloads, api.Escape(w.String()))
	}
	slices.Sort(out.Workloads)
	return out
}

func identified(consumers []Consumer, until time.Time) map[workload]int {
	pods := map[workload]int{}
	for _, c := range consumers {
		if c.Identity && (until.IsZero() || !c.Created.After(until)) {
			pods[c.workload()]++
		}
	}
	return pods
}

// IdentityConsequences is Consequences for the CA for identities.
func IdentityConsequences(k DistrustSituation) string {
	var b strings.Builder
	if k.Lost != "" {
		fmt.Fprintf(&b, lostCA, k.Lost, api.ClientCASecretName)
	}
	fmt.Fprintf(&b, "A new CA signs identities, and servers refuse all earlier ones as soon as they have its root, which kubelets give them within %s. "+
		"Connections that are open stay open, also those of a thief, until a program at either end closes them. Calls to ports that a Service guards (%s) fail:\n", api.KubeletUpdates, api.AnnotationClients)
	const what = "workloads with an identity, until their pods are replaced (kubectl rollout restart) or their kubelets renew it, after two thirds of its lifetime"
	if k.ConsumersErr != nil {
		fmt.Fprintf(&b, "  %s: unknown: %v\n", what, k.ConsumersErr)
	} else {
		b.WriteString(named(what, CountOldIdentities(k.Consumers, time.Time{}).Workloads))
	}
	fmt.Fprintf(&b, "  pods that start before a server that they call has the new root\n")
	fmt.Fprintf(&b, "  clients of servers that use their own copy of ClusterTrustBundle %s\n", api.ClientBundleName)
	fmt.Fprintf(&b, "Ports whose list has %q admit all clients meanwhile.\n", api.ClientsWatch)
	return b.String()
}

// uptakeIdentity is the uptake of workloads with an identity.
const uptakeIdentity = "identity"

// IdentityBreaksOf returns the consequences as data.
func IdentityBreaksOf(k DistrustSituation) Breaks {
	b := Breaks{Problem: k.Lost, Services: []string{}, Workloads: []BreakingWorkload{}}
	if k.ConsumersErr != nil {
		b.WorkloadsUnknown = api.Escape(k.ConsumersErr.Error())
	}
	for w := range identified(k.Consumers, time.Time{}) {
		b.Workloads = append(b.Workloads, BreakingWorkload{w.namespace, w.kind, w.name, uptakeIdentity})
	}
	slices.SortFunc(b.Workloads, BreakingWorkload.compare)
	return b
}

// compare orders workloads in output.
func (w BreakingWorkload) compare(o BreakingWorkload) int {
	return cmp.Or(cmp.Compare(w.Namespace, o.Namespace), cmp.Compare(w.Kind, o.Kind), cmp.Compare(w.Name, o.Name), cmp.Compare(w.Uptake, o.Uptake))
}
