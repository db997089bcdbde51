package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
)

// uninstallFlags are what uninstall was asked.
type uninstallFlags struct {
	*plugin
	system, backup string
	check          bool
}

func (p *plugin) uninstallCommand() *cobra.Command {
	return verb{
		about: "Show what to save before servingcert is uninstalled, what to delete in which order, and what stays. Deletes nothing. Exit code 1 without a current backup of the CA.",
		usage: "uninstall --check [--backup FILE] [flags]",
		examples: `# What to save, what to delete in which order, and what stays.
kubectl servingcert uninstall --check`,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := uninstallFlags{plugin: p}
			fs.BoolVar(&f.check, "check", false, "required: the command only checks")
			fs.StringVar(&f.backup, "backup", "", "file with the Secret of the CA, as kubectl get secret -o yaml prints it: compared with the one in the cluster")
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				switch {
				case len(args) > 0:
					return usagef("unexpected argument %q", args[0])
				case !f.check:
					return usagef("--check is required: the command deletes nothing, and prints the commands that do")
				}
				return f.run(ctx)
			}
		},
	}.command()
}

func (f *uninstallFlags) run(ctx context.Context) error {
	var backup []byte
	if f.backup != "" {
		var err error
		if backup, err = os.ReadFile(f.backup); err != nil {
			return usagef("--backup: %w", err)
		}
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	known, err := c.Uninstall(ctx, f.system)
	if err != nil {
		return err
	}
	known.BackupFile, known.Backup = f.backup, backup
	told := judge.Uninstall(known)
	if err := f.write(told); err != nil {
		return err
	}
	if told.Backup.Verdict == judge.VerdictFailed {
		return errReported
	}
	return nil
}

func (f *uninstallFlags) write(told judge.UninstallAdvice) error {
	if _, err := io.WriteString(f.out, "Backup\n"); err != nil {
		return err
	}
	if err := writeFindings(f.screen, []judge.Finding{told.Backup}); err != nil {
		return err
	}
	var b strings.Builder
	bulleted(&b, "Keeps working", told.Works)
	bulleted(&b, "Stops", told.Stops)
	b.WriteString("\nDelete, in this order\n")
	for i, command := range told.Delete {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, command)
	}
	b.WriteString("\nStays\n")
	for _, r := range told.Stays {
		fmt.Fprintf(&b, "  - %s\n", r.What)
		if r.Command != "" {
			fmt.Fprintf(&b, "      %s\n", r.Command)
		}
	}
	_, err := io.WriteString(f.out, b.String())
	return err
}

func bulleted(b *strings.Builder, title string, lines []string) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "  - %s\n", line)
	}
}
