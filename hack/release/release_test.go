//go:build release

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/images"
)

// testVersion is what the test's release is called. No commit has it as a tag.
const testVersion = "v0.0.0-releasetest.1"

// TestRelease makes a release twice, by make as people do, in clones in different
// directories, and looks at it as those do who download it.
func TestRelease(t *testing.T) {
	// A registry that only this test has: push has somewhere to push to.
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")

	first := makeRelease(t, filepath.Join(t.TempDir(), "first"), host, nil)
	second := makeRelease(t, filepath.Join(t.TempDir(), "a", "deeper", "directory"), host, []string{
		"TZ=Asia/Tokyo", "GOAMD64=v3", "GOFLAGS=-buildvcs=false", "LC_ALL=C",
	})
	t.Run("two builds are equal", func(t *testing.T) { equalTrees(t, first, second) })
	t.Run("the files", func(t *testing.T) { theFiles(t, first) })
	t.Run("checksums", func(t *testing.T) { sumsHold(t, first) })
	t.Run("programs say their version", func(t *testing.T) { programsRun(t, first) })
	digests := layoutDigests(t, first, host)
	t.Run("install.yaml and chart name the images", func(t *testing.T) { manifestsName(t, first, digests) })
	t.Run("bills of materials", func(t *testing.T) { billsHold(t, first) })
	t.Run("no path of the builder", func(t *testing.T) { noPaths(t, first) })
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

func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return names
}

func content(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return data
}

func equalTrees(t *testing.T, first, second string) {
	require.Equal(t, files(t, first), files(t, second))
	for _, name := range files(t, first) {
		// Not require.Equal, which would print them.
		if !bytes.Equal(content(t, first, name), content(t, second, name)) {
			t.Errorf("%s differs", name)
		}
	}
}

func theFiles(t *testing.T, dir string) {
	want := []string{
		"checksums.txt", "images.sha256", "install.yaml", "krew.yaml", "release-notes.md",
		"servingcert-" + strings.TrimPrefix(testVersion, "v") + ".tgz",
		"servingcert_linux_amd64.tar.gz", "servingcert_linux_arm64.tar.gz",
		"servingcert_linux_amd64.spdx.json", "servingcert_linux_arm64.spdx.json",
	}
	for _, p := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		want = append(want, plugin+"_"+p+".tar.gz", plugin+"_"+p+".spdx.json")
	}
	for _, p := range []string{"windows_amd64", "windows_arm64"} {
		want = append(want, plugin+"_"+p+".zip", plugin+"_"+p+".spdx.json")
	}
	for _, process := range []string{"webhook", "signer", "rotator"} {
		want = append(want, process+".oci.tar", process+".oci.spdx.json")
	}
	require.ElementsMatch(t, want, files(t, dir))
	require.Contains(t, string(content(t, dir, "release-notes.md")), "### Images")
	require.NotContains(t, string(content(t, dir, "krew.yaml")), "SHA256_")
}

func sumsHold(t *testing.T, dir string) {
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "checksums.txt")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Count(string(content(t, dir, "checksums.txt")), "\n")
	require.Len(t, files(t, dir), lines+1, "each file but checksums.txt is in it")
	for line := range strings.Lines(string(content(t, dir, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasPrefix(name, plugin+"_") && !strings.HasSuffix(name, ".json") {
			require.Contains(t, string(content(t, dir, "krew.yaml")), "sha256: "+sum, name)
		}
	}
}

// unpacked are the files of an archive and their modes.
func unpacked(t *testing.T, path string) (contents map[string][]byte, modes map[string]fs.FileMode) {
	t.Helper()
	contents, modes = map[string][]byte{}, map[string]fs.FileMode{}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for _, f := range archive.File {
			contents[f.Name], err = fs.ReadFile(archive, f.Name)
			require.NoError(t, err)
			modes[f.Name] = f.Mode()
		}
		return contents, modes
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return contents, modes
		}
		require.NoError(t, err)
		contents[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
		modes[header.Name] = header.FileInfo().Mode()
	}
}

// programsRun runs those of this machine's platform.
func programsRun(t *testing.T, dir string) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	commit, err := output(t.Context(), ".", nil, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	for archive, programs := range map[string][]string{
		here.pluginArchive(): {plugin}, here.archive("servingcert"): {"webhook", "signer", "rotator"},
	} {
		contents, modes := unpacked(t, filepath.Join(dir, archive))
		require.Contains(t, contents, "LICENSE")
		require.Len(t, contents, len(programs)+1)
		for _, program := range programs {
			require.Equal(t, fs.FileMode(0o755), modes[program])
			path := filepath.Join(t.TempDir(), program)
			require.NoError(t, os.WriteFile(path, contents[program], 0o700))
			out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, program+" "+testVersion+" (commit "+commit+", "+runtime.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH+")\n", string(out))
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		contents, _ := unpacked(t, filepath.Join(dir, platform{"windows", arch}.pluginArchive()))
		require.Equal(t, "MZ", string(contents[plugin+".exe"][:2]), "a program of Windows")
	}
}

// layoutDigests opens the images, checks every digest and size in them, and returns
// their names by digest, as a manifest has them.
func layoutDigests(t *testing.T, dir, host string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, process := range []string{"webhook", "signer", "rotator"} {
		index, closed, err := images.OpenLayout(filepath.Join(dir, process+".oci.tar"))
		require.NoError(t, err)
		digest, err := index.Digest()
		require.NoError(t, err)
		require.Equal(t, host+"/deep/servingcert/"+process+":"+testVersion, index.Ref())
		found[process] = index.Ref() + "@" + digest
		built, err := index.Images()
		require.NoError(t, err)
		require.Len(t, built, 2)
		for arch, image := range built {
			require.NoError(t, validate.Image(image), arch)
			config, err := image.ConfigFile()
			require.NoError(t, err)
			require.Equal(t, arch, config.Architecture)
			require.Equal(t, "65532:65532", config.Config.User)
			require.Equal(t, testVersion, config.Config.Labels["org.opencontainers.image.version"])
			require.Len(t, config.Config.Labels["org.opencontainers.image.revision"], 40)
		}
		require.NoError(t, closed())
	}
	return found
}

var imageLine = regexp.MustCompile(`(?m)^ *image: "?([^"\s]+)"?$`)

// manifestsName: what install.yaml runs, and what helm makes of the packaged chart.
func manifestsName(t *testing.T, dir string, digests map[string]string) {
	var want []string
	for _, ref := range digests {
		want = append(want, ref)
	}
	slices.Sort(want)
	chart := filepath.Join(dir, "servingcert-"+strings.TrimPrefix(testVersion, "v")+".tgz")
	helm := filepath.Join(t.TempDir(), "helm")
	_, err := output(t.Context(), "../chart", []string{"GOFLAGS="}, "go", "build", "-o", helm, "tool")
	require.NoError(t, err)
	templated, err := output(t.Context(), ".", []string{"HOME=" + t.TempDir()}, helm, "template", "servingcert", chart, "--namespace", "servingcert-system")
	require.NoError(t, err)
	for what, text := range map[string]string{"install.yaml": string(content(t, dir, "install.yaml")), "helm template": templated} {
		var got []string
		for _, match := range imageLine.FindAllStringSubmatch(text, -1) {
			got = append(got, match[1])
		}
		slices.Sort(got)
		require.Equal(t, want, got, what)
	}
	shown, err := output(t.Context(), ".", []string{"HOME=" + t.TempDir()}, helm, "show", "chart", chart)
	require.NoError(t, err)
	require.Contains(t, shown, "\nversion: "+strings.TrimPrefix(testVersion, "v"))
	require.Contains(t, shown, "appVersion: "+testVersion+"\n")
}

// billsHold: each document is read by SPDX's library, and names what it is about by
// the hash that the release has for it.
func billsHold(t *testing.T, dir string) {
	sums := string(content(t, dir, "checksums.txt")) + string(content(t, dir, imageList))
	bills := 0
	for _, name := range files(t, dir) {
		if !strings.HasSuffix(name, ".spdx.json") {
			continue
		}
		bills++
		doc, err := spdxjson.Read(bytes.NewReader(content(t, dir, name)))
		require.NoError(t, err, name)
		require.NoError(t, spdxlib.ValidateDocument(doc), name)
		subject := doc.Packages[0]
		require.Contains(t, sums, subject.PackageChecksums[0].Value+"  "+subject.PackageName+"\n", name)
		var modules []string
		for _, p := range doc.Packages {
			if p.PackageSourceInfo != "" && strings.HasPrefix(p.PackageSourceInfo, "go.sum: h1:") {
				modules = append(modules, p.PackageName)
			}
		}
		require.Greater(t, len(modules), 20, name)
		require.Contains(t, modules, "k8s.io/apimachinery", name)
	}
	require.Equal(t, 2+6+3, bills)
}

// noPaths: no program has a directory of its builder in it.
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
				require.False(t, bytes.Contains(binary, []byte(path)), "%s: %s has %s in it", name, program, path)
			}
		}
	}
}

// pushed: the registry has the images under their names and digests, and one that was
// changed after the release was made is not pushed.
func pushed(t *testing.T, dir string, digests map[string]string) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	var out bytes.Buffer
	require.NoError(t, push(t.Context(), &out, dir))
	for _, ref := range digests {
		require.Contains(t, out.String(), ref+"\n")
		tagged, digest, _ := strings.Cut(ref, "@")
		tag, err := name.NewTag(tagged)
		require.NoError(t, err)
		index, err := remote.Index(tag)
		require.NoError(t, err)
		got, err := index.Digest()
		require.NoError(t, err)
		require.Equal(t, digest, got.String())
		require.NoError(t, validate.Index(index))
	}
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	require.NoError(t, os.WriteFile(filepath.Join(copied, imageList), bytes.ReplaceAll(content(t, dir, imageList), []byte("a"), []byte("b")), 0o600))
	require.ErrorContains(t, push(context.Background(), io.Discard, copied), imageList+" says")
}
