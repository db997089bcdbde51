package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Programs are programs of cmd, by name, that an executable runs as itself when it is started under
// their name. A test that starts one so has its code as an input: Go's cache of test results and the
// race detector cover it, and nothing has to be built. Each function exits.
type Programs map[string]func()

// RunAs does not return if this process was started under the name of one of the programs: it is that
// program then. It comes first in TestMain. Under a name of another program the process ends: it would run
// all tests once more.
func (p Programs) RunAs() {
	name := filepath.Base(os.Args[0])
	if run := p[name]; run != nil {
		run()
	}
	if self, err := os.Executable(); err == nil && name != filepath.Base(self) {
		fmt.Fprintf(os.Stderr, "%s: started as %q, which is no program of this test\n", self, name)
		os.Exit(2)
	}
}

// Link has this executable appear in dir under the name of each program.
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

// Main is the TestMain of a package that needs nothing else.
func (p Programs) Main(m *testing.M) {
	p.RunAs()
	os.Exit(m.Run())
}

// Path returns the path of the program of that name, in a directory of the test.
func (p Programs) Path(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := p.Link(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
