package process

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/cmd/internal/version"
)

// newBuildMetric returns the metric that reports the build of the process.
func newBuildMetric(process string, b version.Info) prometheus.Collector {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "servingcert_build_info",
		Help: "1, with the name of this process, its version and commit, and the Go version that it was built with.",
		ConstLabels: prometheus.Labels{
			"process": process, "version": b.Version, "revision": cmp.Or(b.Commit, "unknown"), "goversion": b.Go,
		},
	})
	gauge.Set(1)
	return gauge
}
