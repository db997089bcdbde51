// Command release builds all files of a release from a commit:
//
//	release build     the last commit, into a directory (make release)
//	release push      the images in that directory, to their registry (make release-push)
//
// With the same version of Go, equal commits give equal files: docs/release.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("a command is required: build or push")
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "bin/release", "directory of the release; build replaces it")
	version := flags.String("version", "", "version, such as v1.2.3, or the output of git describe --tags --always")
	registry := flags.String("registry", "ghcr.io", "registry of the images, with an optional path")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return build(ctx, out, *dir, *version, *registry)
	case "push":
		return push(ctx, out, *dir)
	}
	return fmt.Errorf("%q: must be build or push", args[0])
}

func build(ctx context.Context, out io.Writer, dir, version, registry string) error {
	started := time.Now()
	r, err := newRelease(ctx, version, registry)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.build(ctx, out, r.steps()); err != nil {
		return err
	}
	if err := r.publish(dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of commit %s in %s, built in %.0f s\n", r.version, r.commit[:12], dir, time.Since(started).Seconds())
	return nil
}
