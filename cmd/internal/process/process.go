// Package process is what the three processes have in common at their edge:
// flags and exit codes, logging, the connection to the API server and the
// manager's options. A command reads
//
//	func main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }
//
// and everything after that is its own Config and run(ctx, Config) error.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/version"
)

// Exit codes of Main.
const (
	ExitOK    = 0
	ExitError = 1 // the process ran and failed
	ExitUsage = 2 // a flag, or its value, is wrong: nothing was started
)

// Command is one binary.
type Command struct {
	Name  string
	About string // a sentence or two for --help
	// Flags adds the command's own flags to those of Common.
	Flags func(*pflag.FlagSet)
	// Validate says what is wrong with the flags' values, after Common's were
	// found right.
	Validate func() error
	// Run serves until ctx ends; an error ends the process with ExitError.
	Run    func(ctx context.Context) error
	Common *Common
}

// Main parses args and runs the command until it fails or the process is told
// to stop (SIGINT, SIGTERM). It returns the exit code.
func Main(args []string, stdout, stderr io.Writer, cmd Command) int {
	fs := pflag.NewFlagSet(cmd.Name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	cmd.Common.register(fs, cmd.Name)
	shown := fs.Bool("version", false, "print the version, and do nothing else")
	cmd.Flags(fs)

	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = fmt.Fprintf(stdout, "%s\n\nUsage:\n  %s [flags]\n\nFlags:\n%s", cmd.About, cmd.Name, fs.FlagUsagesWrapped(100))
		return ExitOK
	case err != nil:
		return usage(stderr, cmd.Name, err)
	case *shown:
		_, _ = fmt.Fprintf(stdout, "%s %s\n", cmd.Name, version.Get())
		return ExitOK
	case fs.NArg() > 0:
		return usage(stderr, cmd.Name, fmt.Errorf("unexpected argument %q: only flags are allowed", fs.Arg(0)))
	}
	for _, validate := range []func() error{cmd.Common.validate, cmd.Validate} {
		if err := validate(); err != nil {
			return usage(stderr, cmd.Name, err)
		}
	}

	cmd.Common.setUpLogging(stderr)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := cmd.Run(ctx); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", cmd.Name, err)
		return ExitError
	}
	return ExitOK
}

// usage reports a wrong flag in one line, whatever the error's text holds.
func usage(stderr io.Writer, name string, err error) int {
	line := strings.Join(strings.Fields(err.Error()), " ")
	_, _ = fmt.Fprintf(stderr, "%s: %s (%s --help lists the flags)\n", name, line, name)
	return ExitUsage
}
