//go:build long

package fault

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClock: the clock of a program moves while it runs, and time passes as ever.
func TestClock(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte(`package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	start := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), time.Since(start) < time.Minute)
	}
}
`), 0o600))
	require.NoError(t, BuildWithClock(t.Context(), dir, source))
	clock, err := NewClock(filepath.Join(dir, "clock"))
	require.NoError(t, err)
	program := exec.Command(filepath.Join(dir, "main"))
	program.Env = append(os.Environ(), clock.Variable())
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	answers := bufio.NewReader(out)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		require.NoError(t, clock.Set(ahead))
		_, err := io.WriteString(in, "\n")
		require.NoError(t, err)
		line, err := answers.ReadString('\n')
		require.NoError(t, err)
		at, passes, _ := strings.Cut(strings.TrimSpace(line), " ")
		got, err := time.ParseDuration(at + "s")
		require.NoError(t, err)
		assert.InDelta(t, ahead.Seconds(), (got - time.Duration(time.Now().Unix())*time.Second).Seconds(), 30)
		assert.Equal(t, "true", passes)
	}
	require.NoError(t, in.Close())
	require.NoError(t, program.Wait())
	_, err = withClock([]byte("package time"))
	require.ErrorContains(t, err, "in another way than it did")
}
