package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// withoutWaiting is the hint to make a request while no process answers it.
const withoutWaiting = "; to request it anyway, use --wait=false"

// requireRunning returns an error if a process does not run that the command is about to wait for. It
// warns about processes that the user may not read. otherwise is appended to the error.
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
			_, _ = fmt.Fprintf(s.err, "cannot check whether process %s is running: %s\n", p.Name, p.Why)
		case doctor.ProcessRuns:
		}
	}
	return nil
}
