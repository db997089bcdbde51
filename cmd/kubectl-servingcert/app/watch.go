package app

import (
	"context"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// follow writes a row whenever a Service's row changes, until ctx ends.
func (f *statusFlags) follow(ctx context.Context, c *cluster.Cluster, shown []status.Service, columns *table) error {
	last := map[string]string{} // the row, by NAMESPACE/NAME
	for _, s := range shown {
		last[s.String()] = textOf(f.row(s))
	}
	err := c.WatchServices(ctx, f.namespace, f.name, f.selector, func(changed []status.Service) error {
		if err := c.AddOptIn(ctx, changed); err != nil {
			return err
		}
		if err := f.addTimes(ctx, c, changed); err != nil {
			return err
		}
		var rows [][]cell
		for _, s := range changed {
			row := f.row(s)
			if text := textOf(row); last[s.String()] != text {
				last[s.String()] = text
				rows = append(rows, row)
			}
		}
		return columns.write(f.screen, rows...)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // interrupted by the user
	}
	return err
}

// addTimes reads a single Secret if one Service changed: a list of all is more expensive.
func (f *statusFlags) addTimes(ctx context.Context, c *cluster.Cluster, changed []status.Service) error {
	if len(changed) == 1 {
		return c.AddTimesOf(ctx, &changed[0])
	}
	return c.AddTimes(ctx, f.namespace, changed)
}

func textOf(row []cell) string {
	text := ""
	for _, c := range row {
		text += c.text + "\n"
	}
	return text
}
