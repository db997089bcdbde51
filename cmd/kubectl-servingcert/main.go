// Command kubectl-servingcert is a plugin of kubectl: "kubectl servingcert".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], standard())
	stop()
	os.Exit(code)
}

func standard() streams {
	info, err := os.Stdin.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 // so is /dev/null, which answers nothing
	return streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: terminal}
}

// commands are the verbs, in the order in which help lists them.
func commands() []command {
	return []command{injectCommand(), statusCommand(), verifyCommand(), renewCommand(), rotateCommand()}
}

func run(ctx context.Context, args []string, std streams) int {
	std.manifests, std.out, std.err = std.out, escaping{std.out}, escaping{std.err}
	if len(args) == 0 || slices.Contains([]string{"-h", "--help", "help"}, args[0]) {
		_, _ = io.WriteString(std.out, help())
		return exitOK
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fail(std.err, usagef("unknown command %q: must be one of %s", args[0], names(all)))
	}
	cmd := all[i]
	fs := pflag.NewFlagSet(cmd.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	do := cmd.setup(fs)
	switch err := fs.Parse(args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = fmt.Fprintf(std.out, "%s\n\nUsage:\n  kubectl servingcert %s\n\nFlags:\n%s", cmd.about, cmd.usage, fs.FlagUsagesWrapped(100))
		return exitOK
	case err != nil:
		return fail(std.err, usageError{err})
	}
	if err := do(ctx, fs.Args(), std); err != nil {
		return fail(std.err, err)
	}
	return exitOK
}

func fail(w io.Writer, err error) int {
	if errors.Is(err, errReported) {
		return exitError
	}
	_, _ = fmt.Fprintf(w, "kubectl servingcert: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

func names(all []command) string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.name
	}
	return strings.Join(out, ", ")
}

func help() string {
	var b strings.Builder
	b.WriteString("Serving certificates for Kubernetes workloads.\n\nUsage:\n  kubectl servingcert COMMAND [flags]\n\nCommands:\n")
	for _, c := range commands() {
		_, _ = fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.about) // a Builder does not fail
	}
	b.WriteString("\nkubectl servingcert COMMAND --help lists the flags.\n")
	return b.String()
}
