package programs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltin(t *testing.T) {
	table, err := Parse(builtin)
	require.NoError(t, err)
	require.Greater(t, len(table.All()), 120)
}
