package process

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// version is set by a build that knows better than the Go toolchain, with
// -ldflags '-X github.com/servingcert/servingcert/cmd/internal/process.version=v1.2.3'.
var version string

// unknown is what BuildInfo says of what the Go toolchain did not write down.
const unknown = "unknown"

// BuildInfo is what a binary knows of its own build.
type BuildInfo struct {
	Version   string // of the module: a tag, a pseudo-version with the commit, or (devel)
	Revision  string // the commit, with the suffix -dirty if files were changed
	GoVersion string // such as go1.26.8
}

// ReadBuild returns what the Go toolchain wrote into this binary. What it did not, such as the
// commit in a build without the repository, is "unknown".
func ReadBuild() BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	b := buildOf(info)
	if version != "" {
		b.Version = version
	}
	return b
}

func buildOf(info *debug.BuildInfo) BuildInfo {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b := BuildInfo{Version: info.Main.Version, Revision: settings["vcs.revision"], GoVersion: info.GoVersion}
	for _, field := range []*string{&b.Version, &b.Revision, &b.GoVersion} {
		if *field == "" {
			*field = unknown
		}
	}
	if settings["vcs.modified"] == "true" {
		b.Revision += "-dirty"
	}
	return b
}

// newBuildMetric returns the metric that says which build of the process runs.
func newBuildMetric(process string, b BuildInfo) prometheus.Collector {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "servingcert_build_info",
		Help:        "1, with the name of this process, its version and commit, and the Go version that it was built with.",
		ConstLabels: prometheus.Labels{"process": process, "version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	gauge.Set(1)
	return gauge
}
