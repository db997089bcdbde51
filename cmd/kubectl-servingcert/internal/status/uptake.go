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

// Consumer is a pod that mounts the key of a Service's Secret, or the bundle, or has an identity.
type Consumer struct {
	Namespace string
	// Kind and Name identify the pod's controller, or the pod (api.PodKind) without one.
	Kind, Name string
	// Restartable: kubectl rollout restart supports the workload's kind.
	Restartable bool
	Keys        []pods.Key // the mounted keys
	Bundle      bool       // it mounts the CA bundle
	Identity    bool       // it has an identity, a certificate of the CA for clients
	Created     time.Time  // the pod
	Reloads     bool       // its annotation states that it reloads its files
	OnRotate    api.OnRotate
	// Started is the last start of a container, after which it read its files; zero
	// before the first.
	Started time.Time
	// BundleStarted is the first start of the running containers that mount the CA
	// bundle (pods.BundleStart), which may hold it as it was then; zero if none runs.
	BundleStarted time.Time
}

func (c Consumer) workload() workload { return workload{c.Namespace, c.Kind, c.Name} }

// isRestarted reports whether the rotator may restart it.
func (c Consumer) isRestarted() bool { return c.OnRotate == api.OnRotateRestart && c.Restartable }

// uptake is how a workload takes up a new certificate; greater is worse.
type uptake int

const (
	uptakeClient    uptake = iota // it serves no certificate
	uptakeReloads                 // it was seen to serve a certificate younger than its programs
	uptakeRestarted               // the rotator may restart it
	uptakeUnseen                  // it was not seen to reload
	uptakeStale                   // it serves an older certificate, and must be restarted manually
)

// uptakes holds the names in data and the descriptions, in printed order.
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

// breaking returns how each workload takes up a new certificate or bundle: workloads of
// consumers, and workloads that are reported as stale.
func breaking(consumers []Consumer, services []Service) map[workload]uptake {
	known := map[workload]uptake{} // workloads that are reported as stale
	conditions := map[pods.NamespacedKey][]*Serving{}
	for _, s := range services {
		if s.Serving == nil {
			continue
		}
		key := pods.NamespacedKey{Namespace: s.Namespace, Key: s.Key()}
		conditions[key] = append(conditions[key], s.Serving)
		for _, w := range s.Serving.Stale {
			if w.Kind != "" { // the name of a pod without a controller is not reported
				of := workload{s.Namespace, w.Kind, w.Name}
				known[of] = max(known[of], uptakeOfStale(w))
			}
		}
	}
	worst := maps.Clone(known)
	for _, c := range consumers {
		if slices.Contains(c.Keys, pods.PodKey) || c.Identity && len(c.Keys) == 0 && !c.Bundle {
			continue // see unrefreshed, and identified
		}
		if _, isStale := known[c.workload()]; !isStale {
			worst[c.workload()] = max(worst[c.workload()], uptakeOf(c, conditions))
		}
	}
	return worst
}

// breakingLines returns a line for each uptake, with its workloads.
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

// uptakeOfStale returns the uptake of a workload that serves an older certificate.
func uptakeOfStale(w state.StaleWorkload) uptake {
	if w.OnRotate == api.OnRotateRestart {
		return uptakeRestarted
	}
	return uptakeStale
}

// uptakeOf returns the uptake of a pod's workload that is not reported as stale.
// conditions are those of the Services with a key.
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
