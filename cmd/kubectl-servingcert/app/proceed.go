package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// letProceed lets a generation sign although some targets do not hold its root.
func (f *rotateFlags) letProceed(ctx context.Context, c *cluster.Cluster) error {
	if err := f.allow(ctx, c); err != nil {
		return err
	}
	may := "may"
	if f.dryRun {
		may = "would be allowed to"
	}
	_, _ = fmt.Fprintf(f.text.out, "generation %d %s sign although some targets do not hold its root\n", f.proceed, may)
	if !f.wait || f.dryRun {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return f.done.followed(f.watcher(c).Generation(ctx, f.proceed))
}

func (f *rotateFlags) allow(ctx context.Context, c *cluster.Cluster) error {
	for {
		cm, err := f.status(ctx, c)
		if err != nil {
			return err
		}
		if ca := status.ParseCA(cm.Data); ca.NextGeneration != f.proceed {
			return fmt.Errorf("generation %d is not waiting: %s", f.proceed, ca.Progress())
		}
		if err := f.requireProcesses(ctx, c); err != nil {
			return err
		}
		if f.dryRun {
			f.done.decided(cm, status.RequestDecision{Write: true})
			return nil
		}
		switch err := f.write(ctx, c, cm, api.PromoteDespiteAnnotations(f.proceed)); {
		case err == nil:
			f.done.decided(cm, status.RequestDecision{Write: true})
			f.done.Request = requestWritten
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("let generation %d sign: %w", f.proceed, err)
		}
	}
}
