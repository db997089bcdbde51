package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// withoutWaiting is the hint for a request that no running process answers.
const withoutWaiting = "; to request it anyway, use --wait=false"

// requireRunning returns an error if one of the named processes, for which the command would wait, is not
// running. It warns about processes that the user may not view. otherwise is appended to the error.
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
