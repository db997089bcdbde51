// Package images builds container images without docker or a registry, and writes them to files
// for docker load, ctr images import and kind load image-archive.
//
//	image, err := images.OfBinary("example.com/web:v1", "bin/web", images.Config{})
//	if err != nil { … }
//	err = image.WriteFile("bin/images/web.tar")
//
// Each image has one layer. The layer of an Image is not compressed, as it is imported on the same
// machine, after each change of the code. A release publishes an Index: several architectures,
// OCI's media types, compressed layers. Equal content gives equal bytes: files have no times.
package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the UID and GID of the images: any but root, for runAsNonRoot.
const User = "65532:65532"

// Image is an image with a name.
type Image struct {
	ref   name.Tag
	image v1.Image
}

// Config is the configuration of an image. Zero values are omitted.
type Config struct {
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string // default: User
	Labels     map[string]string
	// Files are further files beside a binary: their content by path, without the first slash.
	Files   map[string]string
	Created time.Time // default: 1970
}

// OfBinary returns an image that contains only a static binary, and the files of config: the file bin/web becomes
// /web, which is the entrypoint unless config has another. ref is the full name with a tag.
func OfBinary(ref, file string, config Config) (*Image, error) {
	layer, entrypoint, err := binaryLayer(file, config.Files)
	if err != nil {
		return nil, err
	}
	if config.Entrypoint == nil {
		config.Entrypoint = entrypoint
	}
	return ofLayer(ref, layer, config)
}

// binaryLayer returns a layer with one program and further files, and its entrypoint.
func binaryLayer(file string, files map[string]string) (layer []byte, entrypoint []string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	path := "/" + filepath.Base(file)
	archive := &bytes.Buffer{}
	w := tar.NewWriter(archive)
	if err := addFile(w, path[1:], 0o755, data); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(w, name, 0o644, []byte(files[name])); err != nil {
			return nil, nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return archive.Bytes(), []string{path}, nil
}

func addFile(w *tar.Writer, name string, mode int64, data []byte) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// OfDir returns an image with the files of a directory, owned by root, except those that match one of
// the patterns of filepath.Match, which are relative to the directory.
func OfDir(ref, dir string, config Config, leaveOut ...string) (*Image, error) {
	layer := &bytes.Buffer{}
	if err := writeDir(layer, dir, leaveOut...); err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	return ofLayer(ref, layer.Bytes(), config)
}

func ofLayer(ref string, layer []byte, config Config) (*Image, error) {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	image, err := configured(empty.Image, static.NewLayer(layer, types.DockerUncompressedLayer), runtime.GOARCH, config)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	return &Image{ref: tag, image: image}, nil
}

// configured returns the image base with its only layer and a configuration.
func configured(base v1.Image, layer v1.Layer, arch string, config Config) (v1.Image, error) {
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	if config.Created.IsZero() {
		config.Created = time.Unix(0, 0)
	}
	file.Created = v1.Time{Time: config.Created.UTC()}
	if config.User == "" {
		config.User = User
	}
	file.Config = v1.Config{
		User: config.User, Entrypoint: config.Entrypoint, Cmd: config.Cmd, Env: config.Env, Labels: config.Labels,
	}
	return mutate.ConfigFile(image, file)
}

// Ref returns the image's name.
func (i *Image) Ref() string { return i.ref.String() }

// WriteFile writes the image as docker save does, atomically.
func (i *Image) WriteFile(path string) error {
	err := writeFile(path, func(w io.Writer) error { return tarball.Write(i.ref, i.image, w) })
	if err != nil {
		return fmt.Errorf("write image %s to %s: %w", i.ref, path, err)
	}
	return nil
}

// writeFile writes a file atomically, and creates its directory.
func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := write(tmp); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
