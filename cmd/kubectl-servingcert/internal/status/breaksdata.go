package status

import (
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
)

// Breaks is Consequences in the form of -o json.
type Breaks struct {
	// Problem is the problem of the CA that is replaced; "" without one.
	Problem string `json:"problem,omitempty"`
	// Services lists the Services whose certificates are replaced: NAMESPACE/NAME.
	Services  []string           `json:"services"`
	Workloads []BreakingWorkload `json:"workloads"`
	// WorkloadsUnknown is why the pods could not be read; "" if Workloads is complete.
	WorkloadsUnknown string `json:"workloadsUnknown,omitempty"`
	// Targets is the number of the bundle's targets; absent before the rotator's first report.
	Targets *int `json:"targets,omitempty"`
}

// BreakingWorkload is a workload that mounts a certificate or the bundle.
type BreakingWorkload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Uptake is how it takes up a new certificate: stale, unseen, restarted, reloads, client (it mounts only
	// the bundle) or, if its pods have their own keys, podKey or podKeyRestarted; identity if its pods have one of
	// the CA that is replaced.
	Uptake string `json:"uptake"`
}

// The uptakes of workloads whose pods have their own keys.
const (
	uptakePodKey          = "podKey"
	uptakePodKeyRestarted = "podKeyRestarted"
)

// BreaksOf returns the consequences as data.
func BreaksOf(k DistrustSituation) Breaks {
	b := Breaks{Problem: k.Lost, Services: servers(k.Services), Workloads: []BreakingWorkload{}}
	if b.Services == nil {
		b.Services = []string{}
	}
	slices.Sort(b.Services)
	if k.ConsumersErr != nil {
		b.WorkloadsUnknown = api.Escape(k.ConsumersErr.Error())
	}
	if k.Trust != nil {
		b.Targets = &k.Trust.Targets
	}
	add := func(w workload, uptake string) {
		b.Workloads = append(b.Workloads, BreakingWorkload{w.namespace, w.kind, w.name, uptake})
	}
	for w, its := range breaking(k.Consumers, k.Services) {
		add(w, uptakeName(its))
	}
	for w, isRestarted := range unrefreshed(k.Consumers) {
		if isRestarted {
			add(w, uptakePodKeyRestarted)
		} else {
			add(w, uptakePodKey)
		}
	}
	slices.SortFunc(b.Workloads, BreakingWorkload.compare)
	return b
}

func uptakeName(u uptake) string {
	for _, known := range uptakes {
		if known.uptake == u {
			return known.name
		}
	}
	return "" // a test checks that each has a name
}
