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
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/node/images"
)

// testVersion is the version of the tests' releases. No commit has this tag.
const testVersion = "v0.0.0-releasetest.1"

// registryOf starts a registry for this test, and returns its host.
func registryOf(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestStepsOfARelease runs all steps except the compilation twice, with one small program in place of
// all. TestRelease does the same with the real programs (make release-test).
func TestStepsOfARelease(t *testing.T) {
	host := registryOf(t)
	built, err := images.Build(t.Context(), t.TempDir(), "./hack/node/pause")
	require.NoError(t, err)
	program, err := os.ReadFile(built[0])
	require.NoError(t, err)
	var dirs []string
	_ = time.Local.String() // reads the zone of this machine, once
	here := *time.Local     // the registry's server reads the variable, but not the zone
	t.Cleanup(func() { *time.Local = here })
	for umask, zone := range map[int]*time.Location{0o022: time.UTC, 0o077: time.FixedZone("there", 3600)} {
		*time.Local = *zone
		dir := filepath.Join(t.TempDir(), "release")
		dirs = append(dirs, dir)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "of the release before"), 0o755))
		before := syscall.Umask(umask)
		err := smallRelease(t, program, host, dir)
		syscall.Umask(before)
		require.NoError(t, err)
	}
	equalTrees(t, dirs[0], dirs[1])
	theFiles(t, dirs[0])
	sumsHold(t, dirs[0])
	digests := layoutDigests(t, dirs[0], host)
	require.Equal(t, slices.Sorted(maps.Values(digests)), imagesIn(string(content(t, dirs[0], "install.yaml"))))
	billsHold(t, dirs[0], false)
	pushed(t, dirs[0], digests)
}

// smallRelease builds a release in a directory, in which each program is the given one.
func smallRelease(t *testing.T, program []byte, host, dir string) (err error) {
	t.Helper()
	r, err := newRelease(t.Context(), testVersion, host+"/deep")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, p := range pluginPlatforms {
		for _, name := range append(images.Processes(), plugin) {
			path := filepath.Join(r.bin, p.String(), p.program(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, program, 0o755)); err != nil {
				return err
			}
		}
	}
	if err := r.build(t.Context(), io.Discard, r.steps()[1:]); err != nil {
		return err
	}
	return r.publish(dir)
}

// A program that was built from another commit, or from none, is not released.
func TestForeignProgram(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	r := &release{commit: "0123"}
	require.ErrorContains(t, r.checkBuild(binary), "instead of 0123")
}

var imageLine = regexp.MustCompile(`(?m)^ *image: "?([^"\s]+)"?$`)

// imagesIn returns the images that a manifest names, sorted.
func imagesIn(manifest string) []string {
	var found []string
	for _, match := range imageLine.FindAllStringSubmatch(manifest, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return slices.Compact(found) // two Deployments use the image of the rotator
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

// equalTrees checks that both directories have the same files with the same content.
func equalTrees(t *testing.T, first, second string) {
	t.Helper()
	require.Equal(t, files(t, first), files(t, second))
	for _, name := range files(t, first) {
		// require.Equal would print the contents.
		if !bytes.Equal(content(t, first, name), content(t, second, name)) {
			t.Errorf("%s differs", name)
		}
	}
}

// theFiles checks that exactly the files in docs/release.md exist.
func theFiles(t *testing.T, dir string) {
	t.Helper()
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
	for _, process := range images.Processes() {
		want = append(want, process+".oci.tar", process+".oci.spdx.json")
	}
	require.ElementsMatch(t, want, files(t, dir))
	require.Contains(t, string(content(t, dir, "release-notes.md")), "### Images")
	require.NotContains(t, string(content(t, dir, "krew.yaml")), "SHA256_")
}

// sumsHold checks checksums.txt with sha256sum, and that it contains all files.
func sumsHold(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "checksums.txt")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Count(string(content(t, dir, "checksums.txt")), "\n")
	require.Len(t, files(t, dir), lines+1, "it contains each other file")
	for line := range strings.Lines(string(content(t, dir, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasPrefix(name, plugin+"_") && !strings.HasSuffix(name, ".json") {
			require.Contains(t, string(content(t, dir, "krew.yaml")), "sha256: "+sum, name)
		}
	}
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, path string) (contents map[string][]byte, infos map[string]fs.FileInfo) {
	t.Helper()
	contents, infos = map[string][]byte{}, map[string]fs.FileInfo{}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for _, f := range archive.File {
			contents[f.Name], err = fs.ReadFile(archive, f.Name)
			require.NoError(t, err)
			infos[f.Name] = f.FileInfo()
		}
		return contents, infos
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	require.Zero(t, unzipped.ModTime)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return contents, infos
		}
		require.NoError(t, err)
		require.Zero(t, header.Uid)
		require.Empty(t, header.Uname)
		contents[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
		infos[header.Name] = header.FileInfo()
	}
}

// layoutDigests opens the images, checks all digests and sizes, and returns their names by digest.
func layoutDigests(t *testing.T, dir, host string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, process := range images.Processes() {
		index, err := images.OpenLayout(filepath.Join(dir, process+".oci.tar"), t.TempDir())
		require.NoError(t, err)
		digest, err := index.Digest()
		require.NoError(t, err)
		require.Equal(t, host+"/deep/servingcert/"+process+":"+testVersion, index.Ref())
		if images.Installed(process) {
			found[process] = index.Ref() + "@" + digest
		}
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
	}
	return found
}

// billsHold checks that SPDX's library reads each document, and that its hash is that of the release.
func billsHold(t *testing.T, dir string, modules bool) {
	t.Helper()
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
		if modules {
			text := string(content(t, dir, name))
			require.Greater(t, strings.Count(text, "go.sum: h1:"), 20, name)
			require.Contains(t, text, "pkg:golang/k8s.io/apimachinery@v", name)
		}
	}
	require.Equal(t, len(serverPlatforms)+len(pluginPlatforms)+len(images.Processes()), bills)
}

// pushed checks that the registry has the images under their names and digests, and that an image that
// was changed after the build is not pushed.
func pushed(t *testing.T, dir string, digests map[string]string) {
	t.Helper()
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
	require.ErrorContains(t, push(context.Background(), io.Discard, copied), "is not in "+imageList)
}
