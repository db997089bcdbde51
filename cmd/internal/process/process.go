// Package process is what the webhook, signer and rotator have in common: flags and exit codes, logging,
// the connection to the API server and the manager's options. A command reads
//
//	func main() { os.Exit(process.Main(os.Args[1:], os.Stdout, os.Stderr, command())) }
//
// and adds its own Config and run(ctx, Config) error.
package process

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/command"
)

// Exit codes of Main.
const (
	ExitOK    = command.ExitOK
	ExitError = command.ExitError
	ExitUsage = command.ExitUsage
)

// Command is one binary.
type Command struct {
	Name  string
	About string // a sentence or two for --help
	// Flags adds the command's own flags to those of Common.
	Flags func(*pflag.FlagSet)
	// Validate returns an error if a flag's value is invalid. Common's are validated before.
	Validate func() error
	// Run serves until ctx ends; an error ends the process with ExitError.
	Run    func(ctx context.Context) error
	Common *Common
}

// Main parses args, runs the command until it fails or the process gets SIGINT or SIGTERM, and returns
// the exit code.
func Main(args []string, stdout, stderr io.Writer, cmd Command) int {
	return command.Main(args, stdout, stderr, command.Command{
		Name: cmd.Name, About: cmd.About,
		Flags: func(fs *pflag.FlagSet) {
			cmd.Common.register(fs, cmd.Name)
			cmd.Flags(fs)
		},
		Validate: func() error {
			if err := cmd.Common.validate(); err != nil {
				return err
			}
			return cmd.Validate()
		},
		Run: func(ctx context.Context) error {
			cmd.Common.setUpLogging(stderr)
			return cmd.Run(ctx)
		},
	})
}
