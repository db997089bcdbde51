// Command images builds the project's images as files, without docker: make images. kind load
// image-archive, ctr images import and docker load read them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/node/images"
	"github.com/servingcert/servingcert/hack/process"
)

func main() {
	dir := pflag.String("dir", "bin/images", "directory for NAME.tar")
	pflag.Parse()
	process.Main("images", func(ctx context.Context) error { return run(ctx, os.Stdout, *dir) })
}

func run(ctx context.Context, out io.Writer, dir string) error {
	started := time.Now()
	files, err := images.Project(ctx, dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  %.0f MB\n", filepath.ToSlash(file), float64(info.Size())/1e6)
	}
	fmt.Fprintf(out, "built in %.1f s\n", time.Since(started).Seconds())
	return nil
}
