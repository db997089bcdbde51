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
	exitError = 1 // failure, or a negative result
	exitUsage = 2 // invalid flag or argument
)

// streams are the input and output of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer // human-readable text: see escaping
	// manifests is out for the user's own manifests, which are not escaped.
	manifests io.Writer
	// screen is out for text with colours.
	screen   screen
	terminal bool // whether in is a terminal, on which a user can confirm
}

// escaping is a writer of human-readable text. Values are escaped where they are read; this also escapes
// those that were missed, and errors of servers, but no line breaks.
type escaping struct{ to io.Writer }

// Write implements io.Writer.
func (w escaping) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, api.EscapeLines(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// plugin is what all verbs share: streams and the connection to a cluster.
type plugin struct {
	streams
	kube   *connection
	timing Timing
}

// connect returns the cluster that the flags select. It sends no request.
func (p *plugin) connect() (*cluster.Cluster, error) {
	if err := p.kube.named(); err != nil {
		return nil, err
	}
	return cluster.Connect(p.kube)
}

// verb is a subcommand.
type verb struct {
	about string // its description
	usage string // what follows "kubectl servingcert", beginning with the name
	// examples are commands, each preceded by a line that begins with # and explains it.
	examples string
	// setup adds the flags and returns the function that runs once they are parsed.
	setup   func(*pflag.FlagSet) func(ctx context.Context, args []string) error
	outputs outputs     // the values of -o, if it has that flag
	args    completions // of its arguments; nil: none
}

// command returns the verb as a cobra command.
func (v verb) command() *cobra.Command {
	cmd := &cobra.Command{Use: v.usage, Short: v.about, Example: v.examples, DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs}
	cmd.Flags().SortFlags = false
	do := v.setup(cmd.Flags())
	if cmd.ValidArgsFunction = v.args; v.args == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	if len(v.outputs) > 0 {
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(v.outputs.completions(), cobra.ShellCompDirectiveNoFileComp)) // fails only without that flag, which a test covers
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }
	return cmd
}

// fieldManager is the plugin's manager in metadata.managedFields. Flux takes over the fields of managers
// whose names begin with "kubectl", and removes those that its source lacks.
const fieldManager = "servingcert-cli"

// systemNamespace adds the flag for servingcert's namespace.
func systemNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVar(namespace, "system-namespace", api.DefaultNamespace, "namespace of servingcert itself")
}

// usageError is an invalid flag or argument.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported is an error whose text was already printed.
var errReported = errors.New("reported already")
