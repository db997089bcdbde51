package judge

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// OldClients are the pods that may not hold the root of a generation of the CA, in the form of
// -o json. Its texts are escaped (Escape).
type OldClients struct {
	Generation int        `json:"generation"`
	Since      *time.Time `json:"since,omitempty"` // pods that were started before count
	Pods       int        `json:"pods"`
	Workloads  int        `json:"workloads"`
	First      []string   `json:"first"` // some of the workloads, NAMESPACE/KIND NAME

	names string
}

// ParseOldClients reads the data of ConfigMap api.ServingStatusName. Generations whose root all
// clients hold are left out.
func ParseOldClients(data map[string]string) []OldClients {
	var out []OldClients
	for _, of := range api.ParseOldClients(data) {
		if of.Pods == 0 {
			continue
		}
		o := OldClients{Generation: of.Generation, Since: moment(of.Since), Pods: of.Pods, Workloads: of.Workloads, First: []string{}, names: api.Escape(of.String())}
		for _, name := range of.First {
			o.First = append(o.First, api.Escape(name))
		}
		out = append(out, o)
	}
	return out
}

// String says who they are, in one line.
func (o OldClients) String() string {
	return fmt.Sprintf("%s of %s may not hold the root of generation %d, as they were started before it was everywhere: %s",
		Count(o.Pods, "pod"), Count(o.Workloads, "workload"), o.Generation, o.names)
}
