package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// requireRunning returns an error if one of the processes does not run that a request needs which
// is about to be made, and to be waited for. It says of which the user may not see that.
func (s streams) requireRunning(ctx context.Context, c *cluster.Cluster, system string, names ...string) error {
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
			return fmt.Errorf("%s. Nothing was changed; to request it all the same, without waiting: --wait=false", p)
		case doctor.ProcessNotSeen:
			_, _ = fmt.Fprintf(s.err, "whether a %s runs is not known: %s\n", p.Name, p.Why)
		case doctor.ProcessRuns:
		}
	}
	return nil
}
