// Package command is the command line of all programs but the plugin: flags, exit codes and signals. It
// does not import the API or a client, so that the programs of pods and hosts stay small.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/version"
)

// Exit codes of Main.
const (
	ExitOK    = 0
	ExitError = 1 // the program ran and failed
	ExitUsage = 2 // a flag or its value is invalid: nothing was started
)

// Command is one binary.
type Command struct {
	Name  string
	About string // a sentence or two for --help
	// Usage replaces "NAME [flags]" after "Usage:" in --help.
	Usage string
	// Arguments describes the allowed arguments that are not flags; empty: none.
	Arguments string
	Flags     func(*pflag.FlagSet)
	// Validate returns an error if a flag's value is invalid.
	Validate func() error
	// Run runs until ctx ends; an error ends the program with ExitError.
	Run func(ctx context.Context) error
}

// Main parses args, runs the command until it returns or the process gets SIGINT or SIGTERM, and
// returns the exit code.
func Main(args []string, stdout, stderr io.Writer, c Command) int {
	fs := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	c.Flags(fs)
	shown := fs.Bool("version", false, "print the version and exit")

	err := fs.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		usage := c.Usage
		if usage == "" {
			usage = "  " + c.Name + " [flags]\n"
		}
		_, _ = fmt.Fprintf(stdout, "%s\n\nUsage:\n%s\nFlags:\n%s", c.About, usage, fs.FlagUsagesWrapped(100))
		return ExitOK
	case err == nil && *shown:
		_, _ = fmt.Fprintf(stdout, "%s %s\n", c.Name, version.Get())
		return ExitOK
	case err == nil && fs.NArg() > 0:
		allowed := c.Arguments
		if allowed == "" {
			allowed = "only flags are allowed"
		}
		err = fmt.Errorf("unexpected argument %q: %s", fs.Arg(0), allowed)
	case err == nil:
		err = c.Validate()
	}
	if err != nil { // on one line, whatever it contains
		line := strings.Join(strings.Fields(err.Error()), " ")
		_, _ = fmt.Fprintf(stderr, "%s: %s (%s --help lists the flags)\n", c.Name, Printable(line), c.Name)
		return ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := c.Run(ctx); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", c.Name, strings.ReplaceAll(Printable(err.Error()), "\n", "\n  "))
		return ExitError
	}
	return ExitOK
}

// Printable returns a text without the characters that control a terminal or change the direction of text. Names of
// files, and answers of servers, are chosen by others.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
