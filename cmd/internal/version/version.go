// Package version reports the build of servingcert that is running.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of a release, set with
// -ldflags '-X github.com/servingcert/servingcert/cmd/internal/version.release=v1.2.3'.
var release string

// Images is the tag of the images in deploy/ and of those that make images builds.
const Images = "v0.1.0"

// Info is a build, in the form of -o json.
type Info struct {
	Version  string `json:"version"`          // the release's, else the module's; "devel" if neither is known
	Commit   string `json:"commit,omitempty"` // Git commit, with "-dirty" if files were modified; "" if not recorded
	Go       string `json:"go"`
	Platform string `json:"platform"` // OS/ARCH
}

// Get returns the build of this binary.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return infoOf(release, build)
}

func infoOf(release string, build *debug.BuildInfo) Info {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	info := Info{Commit: settings["vcs.revision"], Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info.Commit != "" && settings["vcs.modified"] == "true" {
		info.Commit += "-dirty"
	}
	module := build.Main.Version
	if module == "(devel)" {
		module = ""
	}
	info.Version = cmp.Or(release, module, "devel")
	return info
}

// String returns the build in one line.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, cmp.Or(i.Commit, "unknown"), i.Go, i.Platform)
}
