package fault

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// clockVariable names the file that says by how many seconds the clock is off.
const clockVariable = "SCENES_CLOCK"

// Clock is the wall clock of programs that were built by BuildWithClock. It may be moved
// while they run. Their monotonic clock is right, as it is on a machine whose time is set.
type Clock struct{ path string }

// NewClock makes a clock that is right, in a file that must not exist.
func NewClock(path string) (*Clock, error) {
	return &Clock{path}, os.WriteFile(path, make([]byte, 8), 0o600)
}

// Variable is what a program needs in its environment to have this clock.
func (c *Clock) Variable() string { return clockVariable + "=" + c.path }

// Set has the clock be ahead of the time by this much, which is in whole seconds. It writes
// in place: the programs have mapped the file.
func (c *Clock) Set(ahead time.Duration) error {
	f, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0) //nolint:gosec // two's complement
	return errors.Join(err, f.Close())
}

// BuildWithClock builds packages of the project into a directory. Their clock, in all that
// they are made of, is off by what the file says that clockVariable names. Nothing else is
// changed: Go's linker is given package time with one more line.
func BuildWithClock(ctx context.Context, dir string, packages ...string) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	// By its own path, a Go that was fetched as a module is in the module cache, where the go command
	// lets nothing be replaced.
	root := filepath.Join(dir, "goroot")
	if err := os.Symlink(strings.TrimSpace(string(out)), root); err != nil {
		return err
	}
	overlay, err := writeOverlay(filepath.Join(root, "src", "time"), dir)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"build", "-overlay", overlay, "-o", dir + string(filepath.Separator)}, packages)
	build := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), args...)
	build.Env = append(os.Environ(), "GOROOT="+root, "GOTOOLCHAIN=local")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// writeOverlay writes what replaces Go's package time, whose source is given, and returns
// the file that says so to the go command. The offset is added to the wall clock that Now returns.
func writeOverlay(source, dir string) (string, error) {
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	original, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if bytes.Count(original, []byte(reads)) != 1 {
		return "", errors.New("package time: Now reads the clock in another way than it did")
	}
	changed := bytes.Replace(original, []byte(reads), []byte(reads+"\tsec += movedClock.Load()\n"), 1)
	replace, overlay := map[string]string{}, filepath.Join(dir, "overlay.json")
	for name, content := range map[string][]byte{"time.go": changed, "zmovedclock.go": []byte(clockSource)} {
		replace[filepath.Join(source, name)] = filepath.Join(dir, "overlay-"+name)
		if err := os.WriteFile(filepath.Join(dir, "overlay-"+name), content, 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	return overlay, errors.Join(err, os.WriteFile(overlay, data, 0o600))
}

// clockSource maps the file: a read of the clock must cost no system call.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var movedClock = mapMovedClock()

func mapMovedClock() *atomic.Int64 {
	path, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return new(atomic.Int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(path + ": " + err.Error())
	}
	data, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(path + ": " + err.Error())
	}
	_ = syscall.Close(fd)
	return (*atomic.Int64)(unsafe.Pointer(&data[0]))
}
`
