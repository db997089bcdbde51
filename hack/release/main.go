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
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "release", Short: "Make what a release publishes",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	var dir, version, registry string
	build := &cobra.Command{
		Use: "build", Short: "Build the last commit", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return build(c.Context(), c.OutOrStdout(), dir, version, registry)
		},
	}
	build.Flags().StringVar(&version, "version", "", "version, as v1.2.3, or what git describe --tags --always printed")
	build.Flags().StringVar(&registry, "registry", "ghcr.io", "registry of the images, with a path if it has one")
	push := &cobra.Command{
		Use: "push", Short: "Push the images to their registry", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return push(c.Context(), c.OutOrStdout(), dir) },
	}
	root.PersistentFlags().StringVar(&dir, "dir", "bin/release", "directory of the release; build replaces it")
	root.AddCommand(build, push)
	return root
}

func build(ctx context.Context, out io.Writer, dir, version, registry string) error {
	started := time.Now()
	r, err := newRelease(ctx, version, registry)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.build(ctx, out); err != nil {
		return err
	}
	if err := r.publish(dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of commit %s in %s, built in %.0f s\n", r.version, r.commit[:12], dir, time.Since(started).Seconds())
	return nil
}
