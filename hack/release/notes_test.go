package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const changelog = `# Changes

Words. There is no release yet.

## Unreleased

- next ([limits](docs/limits.md), [one](docs/a.md#b))

### Fixed

- more, [elsewhere](https://example.com), [here](#there)

## [1.2.0] - 2026-11-22

- second

## v1.1.0

- first
`

func TestSection(t *testing.T) {
	for version, want := range map[string]string{"v1.2.0": "- second", "v1.1.0": "- first"} {
		text, err := section(changelog, version, true)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	text, err := section(changelog, "v1.3.0", false)
	require.NoError(t, err)
	require.Contains(t, text, "### Fixed")
	require.NotContains(t, text, "second")
	_, err = section(changelog, "v1.3.0", true)
	require.EqualError(t, err, `CHANGELOG.md has no section "1.3.0": found ["1.1.0" "1.2.0" "Unreleased"]`)
	_, err = section("# Changes\n", "v1.3.0", false)
	require.ErrorContains(t, err, "has no section")
}

// Links are absolute, as the page of a release is not in the repository.
func TestNotes(t *testing.T) {
	text, err := section(changelog, "v1.3.0", false)
	require.NoError(t, err)
	r := &release{version: "v1.3.0", commit: "abc", goVersion: "go1.26.8", images: []image{{"signer", "r.example.com/signer:v1.3.0", "sha256:1"}}}
	notes := r.notes(text)
	require.Contains(t, notes, "[limits](https://github.com/servingcert/servingcert/blob/v1.3.0/docs/limits.md)")
	require.Contains(t, notes, "[one](https://github.com/servingcert/servingcert/blob/v1.3.0/docs/a.md#b)")
	require.Contains(t, notes, "[elsewhere](https://example.com)")
	require.Contains(t, notes, "[here](#there)")
	require.Contains(t, notes, "| signer | `r.example.com/signer:v1.3.0@sha256:1` |\n")
	require.Contains(t, notes, "commit abc with go1.26.8")
}
