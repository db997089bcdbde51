package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// withoutWaiting is how a request is made that nothing answers yet.
const withoutWaiting = "; to request it all the same, without waiting: --wait=false"

// requireRunning returns an error if one of the processes does not run on which a command is about to
// wait. It warns about processes that the user may not look at. otherwise ends the error.
func (s streams) requireRunning(ctx context.Context, c *cluster.Cluster, system, otherwise string, names ...string) error {
	all, err := c.Leading(ctx, system)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !slices.Contains(names, p.Name) {
			continue
		}
		switch p.State {
		case doctor.ProcessAway:
			return fmt.Errorf("%s. Nothing was changed%s", p, otherwise)
		case doctor.ProcessNotSeen:
			_, _ = fmt.Fprintf(s.err, "whether a %s runs is not known: %s\n", p.Name, p.Why)
		case doctor.ProcessRuns:
		}
	}
	return nil
}
