package app

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// displayName is how users type the program's name.
const displayName = "kubectl servingcert"

// flagWidth is the width at which descriptions of flags are wrapped, in columns.
const flagWidth = 100

// helpOf returns the output of --help.
func helpOf(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return verbHelp(cmd)
	}
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s\n\nUsage:\n  %s COMMAND [flags]\n\n%s", cmd.Short, displayName, commandsOf(cmd)) // a Builder never fails
	_, _ = fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for the flags of a command, and\n\"%s options\" for the flags of all commands.\n", displayName, displayName)
	return b.String()
}

// commandsOf lists the subcommands; "" if there are none.
func commandsOf(cmd *cobra.Command) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if listed(c) {
			_, _ = fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Commands:\n" + b.String()
}

func verbHelp(cmd *cobra.Command) string {
	text := cmd.Short + "\n"
	if cmd.Long != "" {
		text += "\n" + strings.TrimSpace(cmd.Long) + "\n"
	}
	text += fmt.Sprintf("\nUsage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		text += "\nExamples:\n" + indented(cmd.Example)
	}
	if commands := commandsOf(cmd); commands != "" {
		text += "\n" + commands
	}
	if flags := flagsOf(cmd); flags != "" {
		text += "\nFlags:\n" + flags
	}
	return text + fmt.Sprintf("\nUse \"%s options\" for the flags of all commands, such as --context and --as.\n", displayName)
}

func indented(text string) string {
	text = "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	return strings.ReplaceAll(text, "\n  \n", "\n\n")
}

// flagsOf lists a verb's own flags.
func flagsOf(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	if help := cmd.Flags().Lookup("help"); help != nil {
		help.Hidden = true // redundant in help itself
	}
	return cmd.LocalFlags().FlagUsagesWrapped(flagWidth)
}

// listed reports whether help lists a command. cobra adds "help" itself.
func listed(c *cobra.Command) bool { return c.IsAvailableCommand() && c.Name() != "help" }

func names(root *cobra.Command) []string {
	var out []string
	for _, c := range root.Commands() {
		if listed(c) {
			out = append(out, c.Name())
		}
	}
	return out
}

// optionsCommand lists the flags that all verbs share, as kubectl options does.
func optionsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "options", Short: "List the flags that all commands take.", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "All commands take these flags:\n\n%s", cmd.InheritedFlags().FlagUsagesWrapped(flagWidth))
		return err
	}
	return cmd
}
