// Command release makes all that a release publishes, from a commit and nothing else:
//
//	release build     the last commit, into a directory (make release)
//	release push      the images of that directory into their registry (make release-push)
//
// Equal commits give equal files, byte for byte, with the same version of Go:
// docs/release.md.
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
		return errors.New("which command? allowed: build, push")
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	dir := flags.String("dir", "bin/release", "directory of the release; build replaces it")
	version := flags.String("version", "", "version, as v1.2.3, or what git describe --tags --always printed")
	registry := flags.String("registry", "ghcr.io", "registry of the images, with a path if it has one")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return build(ctx, out, *dir, *version, *registry)
	case "push":
		return push(ctx, out, *dir)
	}
	return fmt.Errorf("%q: allowed: build, push", args[0])
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
