package app

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/cli.md")

// TestThePageOfTheCommands: docs/cli.md has the output of --help.
func TestThePageOfTheCommands(t *testing.T) {
	const path = "../../../docs/cli.md"
	root := newRoot(&plugin{streams: streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, kube: newConnection()})
	intro, err := os.ReadFile("testdata/cli.md")
	require.NoError(t, err)
	page := string(intro)
	for _, cmd := range allCommands(root) {
		page += fmt.Sprintf("\n## %s\n\n```text\n%s```\n", strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()+" "), verbHelp(cmd))
		if cmd.Name() == "options" {
			page += "\n```text\n" + root.PersistentFlags().FlagUsagesWrapped(flagWidth) + "```\n"
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, page, string(written), "go test ./cmd/kubectl-servingcert/app -run Page -update")
}

// allCommands returns the commands that help lists, each before its subcommands.
func allCommands(root *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range root.Commands() {
		if listed(cmd) {
			all = append(append(all, cmd), allCommands(cmd)...)
		}
	}
	return all
}

// TestEachCommandHasAnExample: help begins with the common uses.
func TestEachCommandHasAnExample(t *testing.T) {
	for _, cmd := range allCommands(newRoot(&plugin{kube: newConnection()})) {
		assert.True(t, cmd.Example != "" || cmd.Name() == "migrate" || cmd.Name() == "options", cmd.Name())
	}
}

// TestEachFlagWithChoicesIsCompleted: shell completion lists the values of -o.
func TestEachFlagWithChoicesIsCompleted(t *testing.T) {
	root := newRoot(&plugin{kube: newConnection()})
	for _, cmd := range allCommands(root) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "output" && f.Name != "namespace" && f.Name != "system-namespace" {
				return
			}
			_, completed := cmd.GetFlagCompletionFunc(f.Name)
			assert.True(t, completed, "%s --%s", cmd.Name(), f.Name)
		})
		assert.True(t, cmd.ValidArgsFunction != nil || len(cmd.ValidArgs) > 0 || cmd.Name() == "options", "%s completes file names", cmd.Name())
	}
}
