//go:build linux

package programs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	table "github.com/servingcert/servingcert/pkg/mutate/programs"
)

// runFile lists the programs that are run, one name a line.
const runFile = "run.txt"

func TestList(t *testing.T) {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	written, err := os.ReadFile(runFile)
	require.NoError(t, err)
	assert.Equal(t, strings.Join(names, "\n")+"\n", string(written), "%s lists what is run, one name a line", runFile)
}

func TestEachIsFoundInTheTable(t *testing.T) {
	for _, p := range list {
		t.Run(p.name, func(t *testing.T) {
			entry := entryOf(t, p.name)
			require.True(t, entry.Takes(), "its entry says that it is not given anything")
			var found *table.Program
			if len(p.command) > 0 {
				found, _ = table.Builtin().ByExecutable(p.command[0])
			} else {
				found, _ = table.Builtin().ByImage(p.image)
			}
			require.NotNil(t, found, "neither its image nor its executable is in the table")
			assert.Equal(t, p.name, found.Name)
			if entry.Reload == table.ReloadRequest {
				assert.NotNil(t, p.ask, "its entry says that it has to be asked to read the files again")
			}
			if entry.Reload == table.ReloadSignal {
				assert.NotNil(t, signalOf(entry), "its entry names the signal: %s", entry.ReloadHow)
			}
		})
	}
}

// entryOf returns the program's entry in the table.
func entryOf(t testing.TB, name string) *table.Program {
	t.Helper()
	all := table.Builtin().All()
	i := slices.IndexFunc(all, func(p table.Program) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0, "no program of this name is in the table")
	return &all[i]
}
