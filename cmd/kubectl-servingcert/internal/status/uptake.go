package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// Consumer is a pod that mounts the key of a Secret that a Service asks for, or the
// bundle.
type Consumer struct {
	Namespace string
	// Kind and Name are of the workload that made the pod. Kind is api.PodKind, and
	// Name the pod's, for one without a controller.
	Kind, Name string
	// Restartable: kubectl rollout restart supports the workload's kind.
	Restartable bool
	Keys        []pods.Key // that it mounts
	Bundle      bool       // it mounts the CA bundle
	Reloads     bool       // it says that it reads its files again
	OnRotate    api.OnRotate
	// Started is when a container of it was started last: it has read its files since then.
	// Zero if none was.
	Started time.Time
}

func (c Consumer) workload() workload { return workload{c.Namespace, c.Kind, c.Name} }

// isRestarted reports whether the rotator may restart it.
func (c Consumer) isRestarted() bool { return c.OnRotate == api.OnRotateRestart && c.Restartable }

// uptake is how a workload takes up a new certificate, the worse the greater.
type uptake int

const (
	uptakeClient    uptake = iota // it serves none
	uptakeReloads                 // it was seen to serve a certificate that is younger than its pods
	uptakeRestarted               // the rotator may restart it
	uptakeUnseen                  // it was not seen to reload
	uptakeStale                   // it serves an older certificate now, and asks for no restart
)

// uptakes are the names in data and the descriptions, in the order in which they are
// printed.
var uptakes = []struct {
	uptake     uptake
	name, what string
}{
	{uptakeStale, "stale", "workloads that already serve an older certificate, and break until they are restarted"},
	{uptakeUnseen, "unseen", "workloads that have not been seen to reload a certificate, and may break until they are restarted"},
	{uptakeRestarted, "restarted", "workloads that the rotator restarts if they do not reload (" + api.AnnotationOnRotate + ": restart), one at a time in each namespace"},
	{uptakeReloads, "reloads", "workloads that have been seen to reload, and serve the new certificate within seconds of its issuance (92 s at most)"},
	{uptakeClient, "client", "workloads that mount only the bundle, and have the new one within seconds (92 s at most)"},
}

// breaking returns how each workload takes up a new certificate or bundle: those of the
// consumers, and those that are reported to be stale.
func breaking(consumers []Consumer, services []Service) map[workload]uptake {
	known := map[workload]uptake{} // those that are reported to be stale
	conditions := map[pods.NamespacedKey][]*Serving{}
	for _, s := range services {
		if s.Serving == nil {
			continue
		}
		key := pods.NamespacedKey{Namespace: s.Namespace, Key: s.Key()}
		conditions[key] = append(conditions[key], s.Serving)
		for _, w := range s.Serving.Stale {
			if w.Kind != "" { // of a pod without a controller the name is not known
				of := workload{s.Namespace, w.Kind, w.Name}
				known[of] = max(known[of], uptakeOfStale(w))
			}
		}
	}
	worst := maps.Clone(known)
	for _, c := range consumers {
		if slices.Contains(c.Keys, pods.PodKey) {
			continue // see unrefreshed
		}
		if _, isStale := known[c.workload()]; !isStale {
			worst[c.workload()] = max(worst[c.workload()], uptakeOf(c, conditions))
		}
	}
	return worst
}

// breakingLines returns a line for each way to take up a new certificate or bundle, with
// the workloads that take it up this way.
func breakingLines(workloads map[workload]uptake) string {
	names := map[uptake][]string{}
	for w, its := range workloads {
		names[its] = append(names[its], w.String())
	}
	var b strings.Builder
	for _, u := range uptakes {
		if len(names[u.uptake]) > 0 {
			b.WriteString(named(u.what, names[u.uptake]))
		}
	}
	return b.String()
}

// uptakeOfStale returns how a workload that serves an older certificate takes up a
// new one.
func uptakeOfStale(w state.StaleWorkload) uptake {
	if w.OnRotate == api.OnRotateRestart {
		return uptakeRestarted
	}
	return uptakeStale
}

// uptakeOf returns how the workload of a pod, which is not reported to be stale, takes
// up a new certificate, by the conditions of Services by their keys.
func uptakeOf(c Consumer, conditions map[pods.NamespacedKey][]*Serving) uptake {
	worst := uptakeClient
	for _, key := range c.Keys {
		its := conditions[pods.NamespacedKey{Namespace: c.Namespace, Key: key}]
		seen := uptakeUnseen
		switch {
		case c.isRestarted():
			seen = uptakeRestarted
		case slices.ContainsFunc(its, func(s *Serving) bool { return s.sawReload(c.Started) }):
			seen = uptakeReloads
		}
		worst = max(worst, seen)
	}
	return worst
}
