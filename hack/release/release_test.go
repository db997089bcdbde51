//go:build release

package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/node/images"
)

// TestRelease builds a release twice, by make, in clones in different directories, and checks the files.
func TestRelease(t *testing.T) {
	host := registryOf(t)
	first := makeRelease(t, filepath.Join(t.TempDir(), "first"), host, nil)
	second := makeRelease(t, filepath.Join(t.TempDir(), "a", "deeper", "directory"), host, []string{
		"TZ=Asia/Tokyo", "GOFLAGS=-buildvcs=false", "LC_ALL=C",
	})
	t.Run("two builds are equal", func(t *testing.T) { equalTrees(t, first, second) })
	t.Run("the files", func(t *testing.T) { theFiles(t, first) })
	t.Run("checksums", func(t *testing.T) { sumsHold(t, first) })
	t.Run("programs print their version", func(t *testing.T) { programsRun(t, first) })
	digests := layoutDigests(t, first, host)
	t.Run("install.yaml and chart name the images", func(t *testing.T) { manifestsName(t, first, digests) })
	t.Run("bills of materials", func(t *testing.T) { billsHold(t, first, true) })
	t.Run("no path of the build machine", func(t *testing.T) { noPaths(t, first) })
	t.Run("push", func(t *testing.T) { pushed(t, first, digests) })
}

// makeRelease clones the last commit into a directory and runs make release there.
func makeRelease(t *testing.T, dir, host string, env []string) string {
	t.Helper()
	_, err := output(t.Context(), ".", nil, "git", "clone", "--quiet", "../..", dir)
	require.NoError(t, err)
	started := time.Now()
	_, err = output(t.Context(), dir, env, "make", "release", "VERSION="+testVersion, "REGISTRY="+host+"/deep")
	require.NoError(t, err)
	t.Logf("make release in %s: %.0f s", dir, time.Since(started).Seconds())
	return filepath.Join(dir, "bin", "release")
}

// programsRun runs the programs for this machine's platform.
func programsRun(t *testing.T, dir string) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	commit, err := output(t.Context(), ".", nil, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	for archive, programs := range map[string][]string{
		here.archive(plugin): {plugin}, here.archive("servingcert"): images.Processes(),
	} {
		contents, infos := unpacked(t, filepath.Join(dir, archive))
		require.Contains(t, contents, "LICENSE")
		require.Len(t, contents, len(programs)+1)
		for _, program := range programs {
			require.Equal(t, fs.FileMode(0o755), infos[program].Mode())
			path := filepath.Join(t.TempDir(), program)
			require.NoError(t, os.WriteFile(path, contents[program], 0o700))
			out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, program+" "+testVersion+" (commit "+commit+", "+runtime.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH+")\n", string(out))
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		contents, _ := unpacked(t, filepath.Join(dir, platform{"windows", arch}.archive(plugin)))
		require.Equal(t, "MZ", string(contents[plugin+".exe"][:2]), "a Windows program")
	}
}

// manifestsName checks the images in install.yaml, and in the objects that helm renders from the packaged chart.
func manifestsName(t *testing.T, dir string, digests map[string]string) {
	want := slices.Sorted(maps.Values(digests))
	chart := filepath.Join(dir, "servingcert-"+strings.TrimPrefix(testVersion, "v")+".tgz")
	helm := filepath.Join(t.TempDir(), "helm")
	_, err := output(t.Context(), "../chart", []string{"GOFLAGS="}, "go", "build", "-o", helm, "tool")
	require.NoError(t, err)
	templated, err := output(t.Context(), ".", []string{"HOME=" + t.TempDir()}, helm, "template", "servingcert", chart, "--namespace", "servingcert-system")
	require.NoError(t, err)
	for what, text := range map[string]string{"install.yaml": string(content(t, dir, "install.yaml")), "helm template": templated} {
		require.Equal(t, want, imagesIn(text), what)
	}
	shown, err := output(t.Context(), ".", []string{"HOME=" + t.TempDir()}, helm, "show", "chart", chart)
	require.NoError(t, err)
	require.Contains(t, shown, "\nversion: "+strings.TrimPrefix(testVersion, "v"))
	require.Contains(t, shown, "appVersion: "+testVersion+"\n")
}

// noPaths checks that no program contains a path of the build machine.
func noPaths(t *testing.T, dir string) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for _, name := range files(t, dir) {
		if !strings.HasSuffix(name, ".tar.gz") && !strings.HasSuffix(name, ".zip") {
			continue
		}
		contents, _ := unpacked(t, filepath.Join(dir, name))
		for program, binary := range contents {
			for _, path := range []string{os.TempDir() + "/release-", home + "/go/", dir} {
				require.False(t, bytes.Contains(binary, []byte(path)), "%s: %s contains %s", name, program, path)
			}
		}
	}
}
