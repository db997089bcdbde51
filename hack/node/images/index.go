package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations of a layout for the image's name: OCI's reference, which is the tag, and the full name
// for containerd and docker.
const (
	refAnnotation  = "org.opencontainers.image.ref.name"
	nameAnnotation = "io.containerd.image.name"
)

// Index is an image for several architectures with a name.
type Index struct {
	ref   name.Tag
	index v1.ImageIndex
}

// OfBinaries returns an Index of images as from OfBinary, for the binary of each architecture
// (GOARCH) of Linux. The labels of config are also annotations of the index and of each image,
// as registries show these.
func OfBinaries(ref string, binaries map[string]string, config Config) (*Index, error) {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(binaries)) {
		image, err := ociImage(arch, binaries[arch], config)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", ref, arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, config.Labels).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("image %s: annotating the index did not return an index", ref)
	}
	return &Index{ref: tag, index: annotated}, nil
}

func ociImage(arch, binary string, config Config) (v1.Image, error) {
	content, entrypoint, err := binaryLayer(binary, config.Files)
	if err != nil {
		return nil, err
	}
	if config.Entrypoint == nil {
		config.Entrypoint = entrypoint
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := configured(base, layer, arch, config)
	if err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, config.Labels).(v1.Image)
	if !ok {
		return nil, errors.New("annotating the image did not return an image")
	}
	return annotated, nil
}

// Ref returns the image's name, with its tag.
func (x *Index) Ref() string { return x.ref.String() }

// Digest returns the digest of the index: sha256:HEX.
func (x *Index) Digest() (string, error) {
	digest, err := x.index.Digest()
	return digest.String(), err
}

// Images returns the images by architecture.
func (x *Index) Images() (map[string]v1.Image, error) {
	manifest, err := x.index.IndexManifest()
	if err != nil {
		return nil, err
	}
	images := map[string]v1.Image{}
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform == nil {
			return nil, fmt.Errorf("image %s: %s has no platform", x.ref, descriptor.Digest)
		}
		if images[descriptor.Platform.Architecture], err = x.index.Image(descriptor.Digest); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// WriteLayout writes the index as an OCI layout in a tar archive, atomically. OpenLayout, ctr images
// import, skopeo and, since version 25, docker load read it.
func (x *Index) WriteLayout(path string) error {
	dir, err := os.MkdirTemp("", "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write image %s: %w", x.ref, err)
	}
	err = written.AppendIndex(x.index, layout.WithAnnotations(map[string]string{
		refAnnotation: x.ref.TagStr(), nameAnnotation: x.ref.String(),
	}))
	if err != nil {
		return fmt.Errorf("write image %s: %w", x.ref, err)
	}
	// Modes must not depend on the umask.
	if err := evenModes(dir); err != nil {
		return err
	}
	if err := writeFile(path, func(w io.Writer) error { return writeDir(w, dir) }); err != nil {
		return fmt.Errorf("write image %s to %s: %w", x.ref, path, err)
	}
	return nil
}

// OpenLayout unpacks the output of WriteLayout into dir, from which the returned index reads.
func OpenLayout(path, dir string) (*Index, error) {
	index, err := openLayout(path, dir)
	if err != nil {
		return nil, fmt.Errorf("read image from %s: %w", path, err)
	}
	return index, nil
}

func openLayout(path, dir string) (*Index, error) {
	if err := unpack(path, dir); err != nil {
		return nil, err
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].MediaType != types.OCIImageIndex {
		return nil, errors.New("must contain exactly one image index")
	}
	tag, err := name.NewTag(manifest.Manifests[0].Annotations[nameAnnotation], name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", nameAnnotation, err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	return &Index{ref: tag, index: index}, nil
}

// Push pushes the index to its registry, with the credentials of docker login or, for ghcr.io,
// $GITHUB_TOKEN.
func (x *Index) Push(ctx context.Context) error {
	keys := authn.NewMultiKeychain(authn.DefaultKeychain, github.Keychain)
	if err := remote.WriteIndex(x.ref, x.index, remote.WithContext(ctx), remote.WithAuthFromKeychain(keys)); err != nil {
		return fmt.Errorf("push image %s: %w", x.ref, err)
	}
	return nil
}

func evenModes(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// unpack extracts the files of a tar archive into a directory, but none outside of it.
func unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	files := fstest.MapFS{}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return os.CopyFS(dir, files)
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = &fstest.MapFile{Data: content}
		}
	}
}
