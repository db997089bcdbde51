package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/hack/node/images"
)

// push pushes the images of a release under their names in install.yaml, and prints them by digest. It
// pushes nothing if one of them does not match the release's list.
func push(ctx context.Context, out io.Writer, dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, imageList))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var indices []*images.Index
	for _, process := range images.Processes() {
		file := image{process: process}.layout()
		index, err := images.OpenLayout(filepath.Join(dir, file), filepath.Join(work, process))
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		listed := image{ref: index.Ref(), digest: digest}.listed()
		if !slices.Contains(strings.Split(string(list), "\n"), listed) {
			return fmt.Errorf("%s: %q is not in %s", file, listed, imageList)
		}
		indices = append(indices, index)
	}
	for _, index := range indices {
		if err := index.Push(ctx); err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s@%s\n", index.Ref(), digest)
	}
	return nil
}
