package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
)

// Situation is what the report is made from.
type Situation struct {
	Workloads []Workload
	// Unjudged are the keys of which this process does not know yet whether pods that
	// mount them are stale.
	Unjudged map[pods.NamespacedKey]bool
	// Clients are those that may hold an older CA bundle, if Counted; else what was reported
	// before stays.
	Clients api.OldClients
	Counted bool
	// Present is the data of the ConfigMap now, nil if it does not exist.
	Present map[string]string
}

// Workload is a stale workload.
type Workload struct {
	Namespace string
	Stale     serving.StaleWorkload
	// Held is why it is not restarted now, nil if there is no reason.
	Held *restart.Held
	// Undecided: nothing was decided yet about the restarts of its namespace.
	Undecided bool
}

// Decision is what follows.
type Decision struct {
	// Data is what the ConfigMap is to hold, nil if nothing is to be written.
	Data map[string]string
}

// holdReadsOtherFiles is why a workload is not restarted whose pods would serve the
// older certificate afterwards, too.
const holdReadsOtherFiles = "ReadsOtherFiles"

// Decide returns the report, if it differs from the present one.
func Decide(s Situation) (Decision, error) {
	before := sync.OnceValue(s.previous) // which may be long, and is seldom needed
	if s.Present == nil && len(s.Unjudged) > 0 {
		return Decision{}, nil
	}
	all := entries{}
	for _, w := range s.Workloads {
		if s.Unjudged[pods.NamespacedKey{Namespace: w.Namespace, Key: w.Stale.Key}] {
			continue // what is known so far is less than what was
		}
		for _, entry := range w.entries() {
			if w.Undecided && entry.OnRotate == api.OnRotateRestart && entry.Held == nil {
				entry.Held = before()[identityOf(entry)].Held
			}
			all.add(entry)
		}
	}
	if len(s.Unjudged) > 0 {
		for _, entry := range before() {
			if s.Unjudged[pods.NamespacedKey{Namespace: entry.Namespace, Key: pods.ParseKey(entry.Secret)}] {
				all.add(entry)
			}
		}
	}
	status, err := api.NewServingStatus(slices.Collect(maps.Values(all)))
	if err != nil {
		return Decision{}, err
	}
	if status.Clients = s.Clients; !s.Counted {
		status.Clients = api.ParseOldClients(s.Present)
	}
	data, err := status.Data()
	if err != nil || maps.Equal(data, s.Present) {
		return Decision{}, err
	}
	return Decision{Data: data}, nil
}

// entries returns what is reported of the workload: one entry, or one for each bare
// pod.
func (w Workload) entries() []api.StaleWorkload {
	entry := api.StaleWorkload{
		Namespace: w.Namespace, Kind: w.Stale.Workload.Kind, Name: w.Stale.Workload.Name,
		Secret: w.Stale.Key.String(), Leaf: w.Stale.Leaf, Since: w.Stale.Since.UTC(), Pods: w.Stale.Pods, OnRotate: w.Stale.OnRotate, Held: w.hold(), Services: w.Stale.Services,
	}
	if !w.Stale.Workload.Bare() {
		return []api.StaleWorkload{entry}
	}
	entries := make([]api.StaleWorkload, 0, len(w.Stale.BarePods))
	for _, pod := range w.Stale.BarePods {
		entry.Kind, entry.Name, entry.Pods = api.PodKind, pod, 1
		entries = append(entries, entry)
	}
	return entries
}

func (w Workload) hold() *api.RestartHold {
	switch {
	case w.Stale.OnRotate != api.OnRotateRestart:
		return nil
	case w.Stale.ReadsOtherFiles && w.Stale.Key == pods.PodKey:
		return &api.RestartHold{Reason: holdReadsOtherFiles, Message: "its pods are newer than the certificate that they serve, so that they read it from other files, and a restart would not help"}
	case w.Stale.ReadsOtherFiles:
		return &api.RestartHold{Reason: holdReadsOtherFiles, Message: fmt.Sprintf(
			"its pods are newer than the certificate in Secret %s, so that they read it from other files or through a subPath, and a restart would not help", w.Stale.Key)}
	case w.Held == nil:
		return nil
	}
	return &api.RestartHold{Reason: string(w.Held.Hold), Message: pods.Shorten(w.Held.Message), Passes: w.Held.Hold.Passes()}
}

// identity is what distinguishes entries.
type identity struct {
	namespace, kind, name, secret, leaf string
	onRotate                            api.OnRotate
}

func identityOf(w api.StaleWorkload) identity {
	return identity{w.Namespace, w.Kind, w.Name, w.Secret, w.Leaf, w.OnRotate}
}

// entries are those of a report.
type entries map[identity]api.StaleWorkload

// previous returns what was reported before, nothing if that cannot be read.
func (s Situation) previous() entries {
	before := entries{}
	if status, err := api.ParseServingStatus(s.Present); err == nil {
		for _, w := range status.Stale {
			before.add(w)
		}
	}
	return before
}

// add adds an entry. What a reader cannot tell apart, as pods of one workload of
// which a restart would help some, is one entry.
func (e entries) add(w api.StaleWorkload) {
	id := identityOf(w)
	if same, ok := e[id]; ok {
		w.Pods += same.Pods
		w.Services = slices.Compact(slices.Sorted(slices.Values(slices.Concat(w.Services, same.Services))))
		w.Held = slices.MaxFunc([]*api.RestartHold{same.Held, w.Held}, compareHolds)
	}
	e[id] = w
}

// compareHolds orders holds by how much they matter: one of the workload before
// none, and that before one that is about some of its pods only.
func compareHolds(a, b *api.RestartHold) int {
	rank := func(h *api.RestartHold) (int, string) {
		switch {
		case h == nil:
			return 1, ""
		case h.Reason == holdReadsOtherFiles:
			return 0, h.Message
		}
		return 2, h.Reason + h.Message
	}
	rankA, textA := rank(a)
	rankB, textB := rank(b)
	return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(textA, textB))
}
