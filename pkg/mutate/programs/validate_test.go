package programs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBareIsOfImagesThatGetFlags(t *testing.T) {
	for name, c := range map[string]struct{ entry, mistake string }{
		"flags and images": {`{program: a, images: [a], bare: true, flags: ["--cert={cert}"], reload: restart}`, ""},
		"no images":        {`{program: a, executables: [a], bare: true, flags: ["--cert={cert}"], reload: restart}`, `line 1: program "a": bare: says what the images do with arguments: must be with flags and images`},
		"variables only":   {`{program: a, images: [a], bare: true, env: [{name: CERT, value: "{cert}"}], reload: restart}`, `line 1: program "a": bare: says what the images do with arguments: must be with flags and images`},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Parse([]byte("- " + c.entry))
			if c.mistake != "" {
				require.EqualError(t, err, c.mistake)
				return
			}
			require.NoError(t, err)
			assert.True(t, table.All()[0].Bare)
		})
	}
}

func TestGeneralNamesAreNoExecutablesOfAProgram(t *testing.T) {
	for _, name := range []string{"manager", "controller", "operator", "app", "java"} {
		_, err := Parse([]byte(`- {program: a, executables: [` + name + `], none: "Put a proxy in front."}`))
		require.EqualError(t, err, `line 1: program "a": executables: "`+name+`": runs all kinds of programs`)
	}
}

func TestPortsAreNumbersOfPorts(t *testing.T) {
	for entry, mistake := range map[string]string{
		`{program: a, images: [a], flags: ["--cert={cert}"], alsoPorts: [0], reload: restart}`: `line 1: program "a": alsoPorts: 0: must be from 1 to 65535`,
		`{program: a, images: [a], flags: ["--cert={cert}"], ports: [65536], reload: restart}`: `line 1: program "a": ports: 65536: must be from 1 to 65535`,
		`{program: a, images: [a], alsoPorts: [9000], none: "Put a proxy in front."}`:          `line 1: program "a": alsoPorts: must be with flags or env`,
	} {
		_, err := Parse([]byte("- " + entry))
		require.EqualError(t, err, mistake)
	}
}
