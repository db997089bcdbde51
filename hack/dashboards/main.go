// Command dashboards writes the Grafana dashboards of deploy/dashboards, with Grafana's own library, into the directory
// that is its argument. `make generate` runs it, and a test in deploy compares.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for _, b := range boards() {
		built, err := b.build()
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", b.name, err)
		}
		data, err := json.MarshalIndent(built, "", "  ")
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", b.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.name+".json"), append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// board is a dashboard. Its name is that of its file.
type board struct {
	name, title, description string
	rows                     []row
}

type row struct {
	title  string
	panels []panel
}

// panel is one picture. A stat is one number for each series, now; else it is a line over time.
type panel struct {
	title, description string
	unit               string // Grafana's: s, short, dtdurations, percentunit …
	width              uint32 // of 24
	stat               bool
	queries            []query
}

type query struct{ expr, legend string }

// source is the Prometheus that its user chooses.
func source() dashboard.DataSourceRef {
	return dashboard.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func (b board) build() (dashboard.Dashboard, error) {
	builder := dashboard.NewDashboardBuilder(b.title).Uid(b.name).Description(b.description).Tags([]string{"servingcert"}).
		Refresh("1m").Time("now-6h", "now").Timezone("browser").Readonly().
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("cluster").Label("Cluster").Datasource(source()).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(servingcert_build_info, cluster)")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*")). // .* also is no label at all
		Link(dashboard.NewDashboardLinkBuilder("servingcert").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"servingcert"}).KeepTime(true).IncludeVars(true))
	for _, r := range b.rows {
		builder.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			if p.stat {
				builder.WithPanel(p.number())
			} else {
				builder.WithPanel(p.lines())
			}
		}
	}
	return builder.Build()
}

func (p panel) number() *stat.PanelBuilder {
	builder := stat.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).Span(p.width).Height(5).Datasource(source()).
		ColorMode(common.BigValueColorModeNone).GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	for _, q := range p.queries {
		builder.WithTarget(q.build().Instant())
	}
	return builder
}

func (p panel) lines() *timeseries.PanelBuilder {
	builder := timeseries.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).Span(p.width).Height(8).Datasource(source()).
		Min(0).Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true))
	for _, q := range p.queries {
		builder.WithTarget(q.build().Range())
	}
	return builder
}

func (q query) build() *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend)
}
