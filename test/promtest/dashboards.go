package promtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Dashboard is a dashboard in deploy/dashboards.
type Dashboard struct {
	Name   string `json:"-"` // file name without extension
	Title  string
	Panels []Panel
}

// Panel is a panel of a dashboard. A row has no targets.
type Panel struct {
	Title, Type string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// Dashboards returns the dashboards in a directory. It returns an error if one has no panels.
func Dashboards(dir string) ([]Dashboard, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Dashboard
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := Dashboard{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(d.Panels) == 0 {
			return nil, fmt.Errorf("%s has no panels", file)
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no dashboards in %s", dir)
	}
	return all, nil
}

// Expr replaces the variables in a panel's query, as Grafana does: all clusters, and rates over 20 s.
func Expr(query string) string {
	return strings.NewReplacer("$cluster", ".*", "$__rate_interval", "20s").Replace(query)
}
