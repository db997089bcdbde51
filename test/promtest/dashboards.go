package promtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Dashboard is what of a file of deploy/dashboards is looked at.
type Dashboard struct {
	Name   string `json:"-"` // of the file, without its extension
	Title  string
	Panels []Panel
}

// Panel is one of its panels. A row has no targets.
type Panel struct {
	Title, Type string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// Dashboards returns those of a directory. One without panels is an error.
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

// Expr returns the query of a panel with what Grafana puts in place of its variables: all clusters, and rates over 20 s.
func Expr(query string) string {
	return strings.NewReplacer("$cluster", ".*", "$__rate_interval", "20s").Replace(query)
}
