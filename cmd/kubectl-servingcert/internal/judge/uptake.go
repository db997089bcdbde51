package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Consumer is a pod that mounts the key of a Secret that a Service asks for, or the
// bundle.
type Consumer struct {
	Namespace string
	// Kind and Name are of the workload that made the pod. Kind is "Pod", and Name
	// the pod's, for one that nothing made.
	Kind, Name string
	// Restartable: kubectl rollout restart supports the workload's kind.
	Restartable bool
	Secrets     []string // those whose key it mounts
	OnRotate    api.OnRotate
	Created     time.Time
}

// name is "shop Deployment/web", or "shop Pod/web-0" of a pod that nothing made.
func (c Consumer) name() string { return c.Namespace + " " + c.Kind + "/" + c.Name }

// isRestarted reports whether the rotator may restart it.
func (c Consumer) isRestarted() bool { return c.OnRotate == api.OnRotateRestart && c.Restartable }

// uptake is how a workload takes up a new certificate, the worse the greater.
type uptake int

const (
	uptakeClient    uptake = iota // it serves none
	uptakeReloads                 // it was seen to serve a certificate that is younger than its pods
	uptakeRestarted               // the rotator may restart it
	uptakeUnseen                  // nobody has seen it reload
	uptakeStale                   // it serves an older certificate now
)

// uptakes are what is said of each, and in which order.
var uptakes = []struct {
	uptake uptake
	what   string
}{
	{uptakeStale, "workloads that already serve an older certificate, and break until somebody restarts them"},
	{uptakeUnseen, "workloads that have not been seen to reload a certificate, and may break until somebody restarts them"},
	{uptakeRestarted, "workloads that the rotator restarts if they do not reload (" + api.AnnotationOnRotate + ": restart), one at a time in each namespace"},
	{uptakeReloads, "workloads that have been seen to reload, and serve the new certificate within 92 s of its issue"},
	{uptakeClient, "workloads that mount only the bundle, and have the new one within 92 s"},
}

// uptakeOf says how the workload of a pod takes up a new certificate, by what the
// rotator says of its Secrets. It is pure.
func uptakeOf(c Consumer, serving map[string][]Serving) uptake {
	worst := uptakeClient
	for _, secret := range c.Secrets {
		its := serving[c.Namespace+"/"+secret]
		seen := uptakeUnseen
		switch {
		case c.isRestarted():
			seen = uptakeRestarted
		case slices.ContainsFunc(its, func(s Serving) bool { return s.isStale(c) }):
			seen = uptakeStale
		case slices.ContainsFunc(its, func(s Serving) bool { return s.sawReload(c.Created) }):
			seen = uptakeReloads
		}
		worst = max(worst, seen)
	}
	return worst
}

// breaking says, a line for each way of taking it up, which workloads have to take
// up a new certificate or bundle. It is pure.
func breaking(consumers []Consumer, services []Service) string {
	serving := map[string][]Serving{}
	for _, s := range services {
		if s.Serving != nil {
			key := s.Namespace + "/" + s.Secret
			serving[key] = append(serving[key], *s.Serving)
		}
	}
	worst := map[string]uptake{}
	for _, c := range consumers {
		worst[c.name()] = max(worst[c.name()], uptakeOf(c, serving))
	}
	var b strings.Builder
	for _, u := range uptakes {
		var names []string
		for name, its := range worst {
			if its == u.uptake {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			b.WriteString(named(u.what, names))
		}
	}
	if len(worst) == 0 {
		b.WriteString(named("workloads that mount a certificate or the bundle", nil))
	}
	return b.String()
}

// maxNamed bounds how many of each kind are named.
const maxNamed = 20

// named is one line with how many there are and the names of at most maxNamed.
func named(what string, names []string) string {
	if len(names) == 0 {
		return "  " + what + ": none\n"
	}
	slices.Sort(names)
	return fmt.Sprintf("  %s: %d: %s\n", what, len(names), shorten(names))
}

// shorten lists the first of them.
func shorten(names []string) string {
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}
