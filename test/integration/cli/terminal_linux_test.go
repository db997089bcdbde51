package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// terminal opens a pseudoterminal (ptmx(4)): what is written to person is typed
// at tty.
func terminal(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return person, tty
}

// startAt is start with somebody at a terminal.
func startAt(t *testing.T, tty *os.File, args ...string) *command {
	t.Helper()
	c := newCommand(t, plane.KubeconfigFile(), args...)
	c.cmd.Stdin = tty
	require.NoError(t, c.cmd.Start())
	return c
}

func TestDistrustIsAsked(t *testing.T) {
	s := newSystem(t)
	s.ca(t, stable())
	args := []string{"rotate-ca", "-n", s.namespace, "--distrust-now", "--reason", "stolen", "--wait=false"}

	t.Run("no", func(t *testing.T) {
		person, tty := terminal(t)
		c := startAt(t, tty, args...)
		c.shown(t, "Type yes to continue: ")
		_, err := person.WriteString("no\n")
		require.NoError(t, err)
		r, err := c.wait()
		require.NoError(t, err)
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, "not confirmed. Nothing was changed")
		assert.Empty(t, s.status(t).Annotations)
	})
	t.Run("yes, of something that was changed meanwhile", func(t *testing.T) {
		person, tty := terminal(t)
		c := startAt(t, tty, args...)
		c.shown(t, "Type yes to continue: ")
		s.annotate(t, map[string]string{api.AnnotationRotate: "first"})
		_, err := person.WriteString("yes\n")
		require.NoError(t, err)
		r, err := c.wait()
		require.NoError(t, err)
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, `this replaces request overlap "first", which was not answered yet`, "what was not known when it was asked is not overwritten silently")
		assert.Equal(t, "distrust-now:stolen", s.asked(t))
	})
}

// sequences are what colours are made with.
var sequences = regexp.MustCompile("\x1b\\[[0-9]+m")

// onTerminal returns what a command writes to a terminal, with line feeds for line ends.
func onTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	screen, tty := terminal(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl-servingcert"), args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+plane.KubeconfigFile()), env...)
	cmd.Stdout = tty
	written := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(screen) // ends with an error when nobody has the terminal open any more
		written <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	_ = cmd.Run() // the exit code is for other tests
	require.NoError(t, tty.Close())
	return <-written
}
