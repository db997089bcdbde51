package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
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
	// screen is out for text that may be painted.
	screen   screen
	terminal bool // in is one: there is somebody to ask
}

// escaping is a writer of text for people. Values are escaped where they are read; this
// is for those that were forgotten, and for errors of servers. A line break passes.
type escaping struct{ to io.Writer }

// Write implements io.Writer.
func (w escaping) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, api.EscapeLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// plugin is what all verbs share: what they read and write, and the cluster that they
// talk to.
type plugin struct {
	streams
	kube   *connection
	timing Timing
}

// connect returns the cluster that the flags name. It sends no request.
func (p *plugin) connect() (*cluster.Cluster, error) {
	if err := p.kube.named(); err != nil {
		return nil, err
	}
	return cluster.Connect(p.kube)
}

// verb is one subcommand.
type verb struct {
	about string // a sentence
	usage string // what follows "kubectl servingcert": the name first
	// examples are commands, each after a line that says what it does, which begins with #.
	examples string
	// setup adds the flags and returns what runs when they are parsed.
	setup   func(*pflag.FlagSet) func(ctx context.Context, args []string) error
	outputs outputs     // the values of -o, if it has that flag
	args    completions // of its arguments; nil: it has none, or none that could be completed
}

// command returns the verb as cobra's.
func (v verb) command() *cobra.Command {
	cmd := &cobra.Command{Use: v.usage, Short: v.about, Example: v.examples, DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs}
	cmd.Flags().SortFlags = false
	do := v.setup(cmd.Flags())
	if cmd.ValidArgsFunction = v.args; v.args == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	if len(v.outputs) > 0 {
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(v.outputs.completions(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists: a test
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }
	return cmd
}

// fieldManager is who wrote what the plugin writes, in metadata.managedFields. Flux takes
// over the fields of every manager whose name begins with "kubectl", and then removes
// what its source does not have.
const fieldManager = "servingcert-cli"

// systemNamespace adds the flag for where servingcert runs.
func systemNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVar(namespace, "system-namespace", api.DefaultNamespace, "namespace of servingcert itself")
}

// usageError is a wrong flag or argument.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported is an error whose text was written already.
var errReported = errors.New("reported already")
