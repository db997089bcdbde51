package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Programs maps names to programs of cmd that an executable runs if it is started under that name. The
// programs are part of the test binary: the race detector and Go's cache of test results cover them,
// and nothing else is built. Each function exits.
type Programs map[string]func()

// RunAs runs the program under whose name this process was started, and does not return then. It must be
// called first in TestMain. Under an unknown name it exits, as the process would run all tests again.
func (p Programs) RunAs() {
	name := filepath.Base(os.Args[0])
	if run := p[name]; run != nil {
		run()
	}
	if self, err := os.Executable(); err == nil && name != filepath.Base(self) {
		fmt.Fprintf(os.Stderr, "%s: started as %q: not a program of this test\n", self, name)
		os.Exit(2)
	}
}

// Link creates links to this executable in dir, under the name of each program.
func (p Programs) Link(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name := range p {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Main is TestMain of a package that needs nothing else.
func (p Programs) Main(m *testing.M) {
	p.RunAs()
	os.Exit(m.Run())
}

// Path returns the path of a program, in a directory of the test.
func (p Programs) Path(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := p.Link(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
