//go:build long

package main

import (
	"context"
	"crypto/x509"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// goStack is the stack that is always available.
func goStack(t *testing.T) []stack {
	all := stacks()
	require.Equal(t, "Go", all[0].name)
	return all[:1]
}

func scenery(t *testing.T) (*scene, time.Time) {
	now := time.Now()
	sc, err := newScene(now)
	require.NoError(t, err)
	return sc, now
}

// TestSuccessionWithGo computes the table with Go's stack; make tlsstacks uses all stacks.
func TestSuccessionWithGo(t *testing.T) {
	sc, now := scenery(t)
	m, err := try(t.Context(), sc, goStack(t), now)
	require.NoError(t, err)
	assert.Empty(t, m.holes(nil))
	assert.Contains(t, m.table(), "| Go | go1.")
	assert.Contains(t, m.table(), "| 2, web.shop.svc | leaf, X(2←1) | all | all | all | all | all | – | all | all | – | – | – | – |")
}

// The harness reports each kind of hole.
func TestHolesAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(sc *scene)
		want    string
	}{
		"a chain without its last cross-certificate": {
			func(sc *scene) {
				sc.servers = sc.servers[2:3]
				sc.servers[0].unordered = true
				sc.servers[0].tail = func(a *pki.Authority) []*x509.Certificate { return a.Chain[:1] }
			},
			"Go with the bundle {1}, served [3, web.shop.svc] leaf, X(3←2): must accept and rejects: ",
		},
		"a root that reaches further than it may": {
			func(sc *scene) {
				sc.servers = sc.servers[4:5]
				sc.servers[0].tail = func(*pki.Authority) []*x509.Certificate { return []*x509.Certificate{sc.ca.of(2).cross} }
			},
			"Go with the bundle {1}, served [5, web.shop.svc: forced: root 1 is out of reach] leaf, X(5←4), X(4←3), X(3←2), X(2←1): must reject and accepts",
		},
		"a name that a client does not check": {
			func(sc *scene) {
				sc.servers = sc.refused()[:1]
				sc.servers[0].host = "web.shop.svc"
			},
			"must reject and accepts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sc, now := scenery(t)
			c.breakIt(sc)
			m, err := try(t.Context(), sc, goStack(t), now)
			require.NoError(t, err)
			assert.Contains(t, strings.Join(m.holes(nil), "\n"), c.want)
		})
	}
	t.Run("an unreachable server is not a rejection", func(t *testing.T) {
		sc, now := scenery(t)
		sc.servers = sc.servers[:1]
		away := stack{name: "Go, another server", connect: each(func(ctx context.Context, a attempt) outcome {
			a.port = 1
			return goClient(ctx, a)
		})}
		m, err := try(t.Context(), sc, []stack{away}, now)
		require.NoError(t, err)
		assert.Len(t, m.holes(nil), len(m.pairs), "including expected rejections")
		assert.Contains(t, m.holes(nil)[0], "failed for another reason than the certificate")
	})
	t.Run("a stack that is required and missing", func(t *testing.T) {
		sc, now := scenery(t)
		sc.servers = sc.servers[:1]
		absent := stack{name: "Absent", needs: []string{"no-such-command"}}
		m, err := try(t.Context(), sc, []stack{absent}, now)
		require.NoError(t, err)
		assert.Empty(t, m.holes(nil))
		assert.Contains(t, m.table(), "| Absent | not installed (no-such-command) | – | – |")
		assert.Equal(t, []string{"no-such-command is required and not installed: Absent was not tested"}, m.holes([]string{"no-such-command"}))
	})
}

// TestDocumentedTable checks docs/tls-stacks.md: its rows and columns, and the guarantee in each cell.
func TestDocumentedTable(t *testing.T) {
	sc, now := scenery(t)
	data, err := os.ReadFile("../../" + docFile)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(data), docBegin)
	documented, _, ended := strings.Cut(rest, docEnd)
	require.True(t, found && ended, "no marks around the table")
	for _, s := range stacks() {
		assert.Contains(t, documented, "\n| "+s.name+" | ", "a stack without a row")
	}
	_, rows, found := strings.Cut(documented, header())
	require.True(t, found, "the head of the table is not\n%s", header())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pairs, _, err := sc.start(ctx, t.TempDir(), now)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	require.Len(t, lines, len(sc.servers), "rows")
	cells := map[string][]string{}
	for _, line := range lines {
		columns := strings.Split(strings.Trim(line, "| "), " | ")
		cells[columns[0]] = columns
	}
	for _, p := range pairs {
		row := cells[p.String()]
		require.NotEmpty(t, row, "no row for %s", p)
		assert.Equal(t, p.chain(), row[1])
		column := 2 + columnOf(p.bundle)
		require.Greater(t, len(row), column, "%s: columns", p)
		for _, s := range stacks() {
			promised := p.promised(p.bundle, s, now)
			listed := lists(row[column], s.name)
			assert.False(t, promised == mustVerify && !listed, "%s, %s: %s must accept; documented: %s", p, p.bundle, s.name, row[column])
			assert.False(t, promised == mustRefuse && listed, "%s, %s: %s must reject; documented: %s", p, p.bundle, s.name, row[column])
		}
	}
}

func columnOf(b bundle) int {
	return slices.IndexFunc(bundles(), func(other bundle) bool { return other.String() == b.String() })
}

// lists reports whether a cell lists the stack.
func lists(cell, name string) bool {
	but, all := strings.CutPrefix(cell, "all but ")
	switch {
	case cell == "all":
		return true
	case all:
		return !slices.Contains(strings.Split(but, ", "), name)
	}
	return slices.Contains(strings.Split(cell, ", "), name)
}
