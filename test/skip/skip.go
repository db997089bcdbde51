// Package skip skips tests and writes down which: go test says nothing about the tests of a package that passed. make
// test prints the list. Packages of any layer use it in their tests, so it imports none of this repository.
package skip

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// envSkipped names a file to which each test that is skipped, whole or in part, adds a line.
const envSkipped = "SERVINGCERT_SKIPPED"

// Now skips the test.
func Now(t testing.TB, why string) {
	t.Helper()
	Part(t, why)
	t.Skip(why)
}

// Part notes that the test does without a part of itself, and goes on.
func Part(t testing.TB, why string) {
	t.Helper()
	file := os.Getenv(envSkipped)
	if file == "" {
		return
	}
	if err := addLine(file, t.Name()+" "+why); err != nil {
		t.Fatalf("%s: %v", envSkipped, err)
	}
}

// WithoutPrograms skips the test unless all of the programs are installed.
func WithoutPrograms(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Now(t, name+" is not installed")
		}
	}
}

// WithoutRoot skips the test unless root runs it; what says what it does that needs root.
func WithoutRoot(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Now(t, what+", which needs root")
	}
}

// addLine appends to a file that tests of several packages write.
func addLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
