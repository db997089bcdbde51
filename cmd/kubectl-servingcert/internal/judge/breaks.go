package judge

import (
	"fmt"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// DistrustSituation is what is known when every root from before is about to be distrusted.
type DistrustSituation struct {
	Lost      string // the problem of the CA that is replaced; "" if it is in order
	Services  []Service
	Consumers []Consumer
	// ConsumersErr is why Consumers could not be read, or nil.
	ConsumersErr error
	Trust        *TrustStatus // nil if there is none
}

// Consequences returns the lines about who fails until it has reloaded.
func Consequences(k DistrustSituation) string {
	var b strings.Builder
	if k.Lost != "" {
		fmt.Fprintf(&b, "The CA cannot be used (%s). If you have a backup of Secret %s, restore it instead: that breaks no client.\n", k.Lost, api.CASecretName)
	}
	fmt.Fprintf(&b, "A new CA is created, and all earlier roots are distrusted at once. Clients fail to verify servers until these have the new certificates and the new bundle:\n")
	b.WriteString(named("Services whose certificates are replaced", servers(k.Services)))
	workloads := breaking(k.Consumers, k.Services)
	b.WriteString(workloads)
	const every = "workloads that mount a certificate or the bundle"
	switch {
	case k.ConsumersErr != nil:
		fmt.Fprintf(&b, "  %s: unknown: %v\n", every, k.ConsumersErr)
	case workloads == "":
		b.WriteString(named(every, nil))
	}
	for _, line := range []string{Bounded(Holds(k.Services)), Doubt(k.Services)} {
		if line != "" {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(line, "\n", "\n  "))
		}
	}
	if k.Trust != nil {
		fmt.Fprintf(&b, "  targets that hold the bundle (ConfigMaps, webhooks, CRDs, APIServices): %d\n", k.Trust.Targets)
	}
	b.WriteString("  clients that use their own copy of the bundle\n")
	return b.String()
}

// servers returns the Services that have a leaf.
func servers(services []Service) []string {
	var names []string
	for _, s := range services {
		if s.Leaf != "" {
			names = append(names, s.String())
		}
	}
	return names
}
