package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // it failed, or what was asked about would be refused
	exitUsage = 2 // a flag or argument is wrong
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer // text for people: see escaping
	// manifests is out for the user's own manifests, which are not text for people.
	manifests io.Writer
	terminal  bool // in is one: there is somebody to ask
}

// escaping is a writer of text for people. Values are escaped where they are read; this
// is for those that were forgotten, and for errors of servers. A line break passes.
type escaping struct{ to io.Writer }

// Write implements io.Writer.
func (w escaping) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, judge.EscapeLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// command is one subcommand.
type command struct {
	name, about, usage string
	// setup adds the flags and returns what runs when they are parsed.
	setup func(*pflag.FlagSet) func(ctx context.Context, args []string, std streams) error
}

// usageError is a wrong flag or argument.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported is an error whose text was written already.
var errReported = errors.New("reported already")
