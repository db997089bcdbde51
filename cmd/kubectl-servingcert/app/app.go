// Package app implements the program kubectl-servingcert: its flags, their validation, and its verbs. The
// command only calls it, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/version"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/apply"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// Timing holds the intervals and timeouts that no flag sets.
type Timing struct {
	Follow   follow.Timing // of rotate-ca, renew and migrate service-ca
	Apply    apply.Timing  // of plan --apply
	Verify   time.Duration // how long verify waits for a report of the rotator that is about to change
	Complete time.Duration // the longest wait for a cluster in shell completion
}

// DefaultTiming returns the timing that Main uses.
func DefaultTiming() Timing {
	return Timing{Follow: follow.DefaultTiming(), Apply: apply.DefaultTiming(), Verify: 5 * time.Second, Complete: 2 * time.Second}
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { MainWith(DefaultTiming()) }

// MainWith is Main with the given timing; tests use shorter timeouts.
func MainWith(timing Timing) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, arguments(os.Args), standard(), timing)
	stop()
	os.Exit(code)
}

// arguments returns the arguments of the program. kubectl runs it under the name completer to complete
// arguments.
func arguments(args []string) []string {
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == completer {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

func standard() streams {
	info, err := os.Stdin.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 // also true for /dev/null, which is at its end
	return streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: terminal, screen: screenOf(os.Stdout, os.Getenv)}
}

// verbs returns the subcommands in the order of help.
func (p *plugin) verbs() []*cobra.Command {
	return []*cobra.Command{
		p.injectCommand(),
		p.statusCommand(),
		p.verifyCommand(),
		p.renewCommand(),
		p.rotateCommand(),
		p.doctorCommand(),
		p.analyzeCommand(),
		p.planCommand(),
		p.clientsCommand(),
		p.migrateCommand(),
		p.versionCommand(),
	}
}

func run(ctx context.Context, args []string, std streams, timing Timing) int {
	if std.screen.to == nil {
		std.screen.to = std.out
	}
	std.manifests, std.out, std.err = std.out, escaping{std.out}, escaping{std.err}
	if std.screen.columns > 0 {
		std.manifests = std.out // only files get unescaped text
	}
	root := newRoot(&plugin{streams: std, kube: newConnection(), timing: timing})
	root.SetArgs(append([]string{}, args...)) // cobra replaces nil with os.Args
	return exitCode(std.err, root.ExecuteContext(ctx))
}

// newRoot returns "kubectl servingcert" with all verbs.
func newRoot(p *plugin) *cobra.Command {
	cobra.EnableCommandSorting = false // keep the order of verbs
	var shown bool
	root := &cobra.Command{
		Use:           "kubectl-servingcert COMMAND [flags]",
		Short:         "Serving certificates for Kubernetes workloads.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          func(cmd *cobra.Command, args []string) error { return unknown(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !shown {
				return cmd.Help()
			}
			_, err := fmt.Fprintf(p.out, "%s %s\n", cmd.Name(), version.Get())
			return err
		},
	}
	// Every program of servingcert has this flag; the command version prints more.
	root.Flags().BoolVar(&shown, "version", false, "print the version of the plugin, and do nothing else")
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.CompletionOptions.DisableDefaultCmd = true // replaced by p.completionCommand
	p.kube.add(root.PersistentFlags())
	root.SetFlagErrorFunc(unknownFlag)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _, _ = io.WriteString(p.out, helpOf(cmd)) })
	root.AddCommand(p.verbs()...)
	root.AddCommand(p.completionCommand(), optionsCommand())
	p.completeFlags(root)
	return root
}

// unknown returns an error if a verb does not exist; nil without arguments.
func unknown(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q%s: must be one of %s", args[0], suggestion(args[0], names(root)), strings.Join(names(root), ", "))
}

// unknownFlag returns the error for an invalid flag.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError{err}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return usagef("%w%s", err, suggestion("--"+unknown.GetSpecifiedName(), names))
}

// suggestion returns a suggestion if the wrong word is close to an allowed one, else "".
func suggestion(word string, allowed []string) string {
	if near := doctor.Suggest(word, allowed); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// exitCode prints an error, and returns the exit code of the process.
func exitCode(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errReported) {
		return exitError
	}
	_, _ = fmt.Fprintf(w, "%s: %v\n", displayName, err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}
