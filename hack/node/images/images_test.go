package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// read reads an image from its file.
func read(t *testing.T, i *Image) (v1.Image, *v1.ConfigFile) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sub", "image.tar")
	require.NoError(t, i.WriteFile(file))
	tag, err := name.NewTag(i.Ref())
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(file, &tag)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	return image, config
}

// entries returns the headers of an image's only layer, by name, and the files' contents.
func entries(t *testing.T, image v1.Image) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	headers, files := map[string]*tar.Header{}, map[string]string{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, files
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		headers[header.Name], files[header.Name] = header, string(data)
	}
}

func TestOfBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "signer")
	require.NoError(t, os.WriteFile(binary, []byte("ELF"), 0o600))
	const ref = "ghcr.io/servingcert/signer:v0.1.0"
	made, err := OfBinary(ref, binary, Config{Labels: map[string]string{"a": "b"}})
	require.NoError(t, err)
	require.Equal(t, ref, made.Ref())

	image, config := read(t, made)
	require.Equal(t, []string{"/signer"}, config.Config.Entrypoint)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, map[string]string{"a": "b"}, config.Config.Labels)
	require.Equal(t, "linux", config.OS)
	headers, files := entries(t, image)
	require.Equal(t, map[string]string{"signer": "ELF"}, files)
	require.EqualValues(t, 0o755, headers["signer"].Mode, "executable, independent of the file's mode")

	again, err := OfBinary(ref, binary, Config{Labels: map[string]string{"a": "b"}})
	require.NoError(t, err)
	first, err := made.image.Digest()
	require.NoError(t, err)
	second, err := again.image.Digest()
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// The proxy starts with the files of its image, which it needs to look up names.
func TestFilesOfTheProxy(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "proxy")
	require.NoError(t, os.WriteFile(binary, []byte("ELF"), 0o600))
	made, err := OfBinary("ghcr.io/servingcert/proxy:v0.1.0", binary, Config{Files: Files("proxy")})
	require.NoError(t, err)
	image, config := read(t, made)
	require.Equal(t, []string{"/proxy"}, config.Config.Entrypoint)
	headers, files := entries(t, image)
	require.Len(t, files, 2)
	require.NoError(t, proxy.CheckNameService(files["etc/nsswitch.conf"]))
	require.EqualValues(t, 0o644, headers["etc/nsswitch.conf"].Mode, "for any user")
	require.Empty(t, Files("webhook"))
}

func TestOfDir(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "usr", "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "usr", "bin", "web"), []byte("ELF"), 0o700))
	require.NoError(t, os.Symlink("usr/bin", filepath.Join(dir, "bin")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "usr", "share", "doc5"), 0o755))
	for _, file := range []string{"large", "doc5/large"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "usr", "share", file), nil, 0o600))
	}
	made, err := OfDir("example.com/web:v1", dir, Config{Entrypoint: []string{"/bin/web"}, User: "33:33"}, "usr/share/doc*", "usr/share/l*")
	require.NoError(t, err)

	image, config := read(t, made)
	require.Equal(t, "33:33", config.Config.User)
	headers, files := entries(t, image)
	require.Len(t, headers, 6)
	require.Equal(t, "ELF", files["usr/bin/web"])
	require.EqualValues(t, 0o700, headers["usr/bin/web"].Mode)
	require.Equal(t, "usr/bin", headers["bin"].Linkname)
	require.EqualValues(t, tar.TypeSymlink, headers["bin"].Typeflag)
	require.EqualValues(t, 0o1777, headers["tmp/"].Mode)
	for name, header := range headers {
		require.Zero(t, header.Uid, name)
		require.LessOrEqual(t, header.ModTime.Unix(), int64(0), name)
	}
}

func TestRefused(t *testing.T) {
	_, err := OfDir("example.com/web", t.TempDir(), Config{})
	require.ErrorContains(t, err, `image "example.com/web": `)
	_, err = OfBinary("example.com/web:v1", filepath.Join(t.TempDir(), "none"), Config{})
	require.ErrorContains(t, err, "none: no such file")
	_, err = OfDir("example.com/web:v1", filepath.Dir(t.TempDir()), Config{}, "[")
	require.ErrorContains(t, err, "syntax error in pattern")
	_, err = OfDir("example.com/web:v1", "/none", Config{})
	require.ErrorContains(t, err, "image example.com/web:v1: ")
}

// installRefs returns the images of exactly the containers in install.yaml.
func TestInstallRefs(t *testing.T) {
	refs, err := installRefs()
	require.NoError(t, err)
	require.Len(t, refs, len(processes))
	for _, process := range processes {
		require.True(t, strings.HasPrefix(refs[process], "ghcr.io/servingcert/"+process+":v"), refs[process])
	}
}

// Built programs are static.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	built, err := Build(t.Context(), dir, "./hack/node/pause")
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "pause")}, built)
	data, err := os.ReadFile(built[0])
	require.NoError(t, err)
	require.NotContains(t, string(data), "ld-linux", "a dynamic loader")

	_, err = Build(t.Context(), dir, "./hack/none")
	require.ErrorContains(t, err, "go build ./hack/none: exit status 1\n")
}
