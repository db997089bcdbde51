package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/servingcert/servingcert/hack/node/images"
)

// push pushes the images of a release, each under the name that install.yaml has for
// it, and prints them by digest. Nothing is pushed if one of them is not as the
// release's list says.
func push(ctx context.Context, out io.Writer, dir string) (err error) {
	list, err := os.ReadFile(filepath.Join(dir, imageList))
	if err != nil {
		return err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(list)) {
		digest, repository, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[repository] = "sha256:" + digest
	}
	var indices []*images.Index
	var closers []func() error
	defer func() {
		for _, closed := range closers {
			err = errors.Join(err, closed())
		}
	}()
	for _, process := range images.Processes() {
		file := image{process: process}.layout()
		index, closed, err := images.OpenLayout(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		closers = append(closers, closed)
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		if repository := (image{ref: index.Ref()}).repository(); listed[repository] != digest {
			return fmt.Errorf("%s: is %s@%s, and %s says %q", file, repository, digest, imageList, listed[repository])
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
