package follow

import (
	"context"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
)

// identities prints what is left to do once a new generation signs identities. If the rotation breaks clients, servers
// refuse the identities that were signed before.
func (w *Watcher) identities(ctx context.Context, breaks bool) error {
	ca := *w.seen.CA
	_, _ = fmt.Fprintf(w.Out, "done: generation %d signs identities\n", ca.Generation)
	for _, line := range ca.Others() {
		_, _ = fmt.Fprintf(w.Out, "left: %s\n", line)
	}
	signs := slices.IndexFunc(ca.Generations, func(g api.CAGenerationRecord) bool { return g.Number == ca.Generation })
	if signs < 0 {
		return nil
	}
	old, notSeen, err := w.Cluster.OldIdentities(ctx, ca.Generations[signs].SignsSince)
	if err != nil {
		return err
	}
	const until = "until their kubelets renew it, after two thirds of its lifetime"
	switch {
	case notSeen != "":
		_, _ = fmt.Fprintf(w.Out, "not seen: %s\n", notSeen)
	case old.Pods == 0:
		_, _ = fmt.Fprintf(w.Out, "no pod with an identity is older than generation %d\n", ca.Generation)
	case breaks:
		_, _ = fmt.Fprintf(w.Out, "refused: servers refuse the identity of pods that were created before, %s; restart them (kubectl rollout restart): %s\n", until, old)
	default:
		_, _ = fmt.Fprintf(w.Out, "left: pods that were created before keep their identity, which stays valid, %s: %s\n", until, old)
	}
	return nil
}
