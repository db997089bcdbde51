package images

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

var commitTime = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// index returns an index for two architectures, with text files as programs.
func index(t *testing.T, ref string) *Index {
	t.Helper()
	dir, binaries := t.TempDir(), map[string]string{}
	for _, arch := range []string{"arm64", "amd64"} {
		binaries[arch] = filepath.Join(dir, arch, "signer")
		require.NoError(t, os.MkdirAll(filepath.Dir(binaries[arch]), 0o755))
		require.NoError(t, os.WriteFile(binaries[arch], []byte("ELF "+arch), 0o600))
	}
	made, err := OfBinaries(ref, binaries, Config{
		Labels: map[string]string{"org.opencontainers.image.version": "v0.1.0"}, Created: commitTime,
	})
	require.NoError(t, err)
	return made
}

// TestLayout writes an index and reads it: it has only OCI's media types and one program for each
// architecture, and is reproducible.
func TestLayout(t *testing.T) {
	const ref = "ghcr.io/servingcert/signer:v0.1.0"
	made := index(t, ref)
	first, second := filepath.Join(t.TempDir(), "sub", "first.tar"), filepath.Join(t.TempDir(), "second.tar")
	require.NoError(t, made.WriteLayout(first))
	before := syscall.Umask(0o077)
	err := index(t, ref).WriteLayout(second)
	syscall.Umask(before)
	require.NoError(t, err)
	one, err := os.ReadFile(first)
	require.NoError(t, err)
	two, err := os.ReadFile(second)
	require.NoError(t, err)
	require.Equal(t, one, two)
	for archive := tar.NewReader(bytes.NewReader(one)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.LessOrEqual(t, header.ModTime.Unix(), int64(0), header.Name)
		require.Zero(t, header.Mode&0o022, header.Name)
	}

	opened, err := OpenLayout(first, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, ref, opened.Ref())
	written, err := made.Digest()
	require.NoError(t, err)
	read, err := opened.Digest()
	require.NoError(t, err)
	require.Equal(t, written, read)
	require.NoError(t, validate.Index(opened.index), "digests and sizes match the manifests")
	checkIndex(t, opened)
}

func checkIndex(t *testing.T, opened *Index) {
	t.Helper()
	manifest, err := opened.index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, types.OCIImageIndex, manifest.MediaType)
	require.Equal(t, map[string]string{"org.opencontainers.image.version": "v0.1.0"}, manifest.Annotations)
	require.Len(t, manifest.Manifests, 2)
	require.Equal(t, v1.Platform{OS: "linux", Architecture: "amd64"}, *manifest.Manifests[0].Platform)
	images, err := opened.Images()
	require.NoError(t, err)
	require.Len(t, images, 2)
	for arch, image := range images {
		manifest, err := image.Manifest()
		require.NoError(t, err)
		require.Equal(t, types.OCIManifestSchema1, manifest.MediaType)
		require.Equal(t, types.OCIConfigJSON, manifest.Config.MediaType)
		require.Equal(t, types.OCILayer, manifest.Layers[0].MediaType)
		require.Equal(t, "v0.1.0", manifest.Annotations["org.opencontainers.image.version"])
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, arch, config.Architecture)
		require.Equal(t, "linux", config.OS)
		require.Equal(t, commitTime, config.Created.Time)
		require.Equal(t, "65532:65532", config.Config.User)
		require.Equal(t, []string{"/signer"}, config.Config.Entrypoint)
		require.Equal(t, "v0.1.0", config.Config.Labels["org.opencontainers.image.version"])
		_, files := entries(t, image)
		require.Equal(t, map[string]string{"signer": "ELF " + arch}, files)
	}
}

// After Push, the registry has the content of the layout under its tag.
func TestPush(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/servingcert/signer:v0.1.0"
	made := index(t, ref)
	require.NoError(t, made.Push(t.Context()))
	want, err := made.Digest()
	require.NoError(t, err)
	tag, err := name.NewTag(ref)
	require.NoError(t, err)
	pushed, err := remote.Index(tag)
	require.NoError(t, err)
	got, err := pushed.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got.String())
	require.NoError(t, validate.Index(pushed))

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, made.Push(canceled), "push image "+ref+": ")
}

func TestNoLayout(t *testing.T) {
	_, err := OfBinaries("example.com/web", nil, Config{})
	require.ErrorContains(t, err, `image "example.com/web": `)
	_, err = OfBinaries("example.com/web:v1", map[string]string{"amd64": "/none"}, Config{})
	require.ErrorContains(t, err, "image example.com/web:v1 for amd64: ")

	_, err = OpenLayout("/none", t.TempDir())
	require.ErrorContains(t, err, "read image from /none: ")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(`{"schemaVersion":2,"manifests":[]}`), 0o600))
	file := filepath.Join(t.TempDir(), "empty.tar")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, writeDir(f, dir))
	require.NoError(t, f.Close())
	_, err = OpenLayout(file, t.TempDir())
	require.ErrorContains(t, err, "must contain exactly one image index")
}

// The environment of the builder does not change the binaries of a release.
func TestPlatformBuild(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=false -tags=none")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOARM64", "v9.0")
	platform := Platform{OS: "linux", Arch: runtime.GOARCH, Version: "v9.9.9"}
	built, err := platform.Build(t.Context(), "../../..", t.TempDir(), "./hack/node/pause")
	require.NoError(t, err)
	require.Len(t, built, 1)
	info, err := buildinfo.ReadFile(built[0])
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	require.NotContains(t, settings, "-tags")
	require.Equal(t, "0", settings["CGO_ENABLED"])
	require.Equal(t, "true", settings["-trimpath"])
	require.Contains(t, []string{"v1", "v8.0"}, settings["GOAMD64"]+settings["GOARM64"])

	_, err = platform.Build(t.Context(), "../../..", t.TempDir(), "./hack/none")
	require.ErrorContains(t, err, "go build ./hack/none: exit status 1\n")
}
