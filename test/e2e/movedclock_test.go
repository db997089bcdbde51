//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// movedClock is what is added to the kubelet's package that asks for certificates of pods:
// there, and nowhere else, it is later by what a file next to the kubelet says.
const movedClock = `
type movedClock struct{ clock.PassiveClock }

func (c movedClock) Now() time.Time {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	content, err := os.ReadFile(program + ".ahead")
	if os.IsNotExist(err) {
		return c.PassiveClock.Now()
	}
	if err != nil {
		panic(err)
	}
	ahead, err := time.ParseDuration(string(content))
	if err != nil {
		panic(err)
	}
	return c.PassiveClock.Now().Add(ahead)
}
`

// buildMovedKubelet builds the kubelet that is pinned, with a clock that can be moved, into
// the directory and returns its path.
func buildMovedKubelet(ctx context.Context, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, "kubelet"))
	if err != nil {
		return "", err
	}
	return path, controlplane.BuildChanged(ctx, os.Stderr, controlplane.Kubelet, controlplane.Change{
		Module: "k8s.io/kubernetes", File: "pkg/kubelet/podcertificate/podcertificatemanager.go", Apply: withMovedClock,
	}, path)
}

func withMovedClock(content string) (string, error) {
	const set, imports = "clock:        clock,", "import (\n"
	if strings.Count(content, set) != 1 || !strings.Contains(content, imports) {
		return "", errors.New("its clock is set in another way than it was")
	}
	content = strings.Replace(content, set, "clock:        movedClock{clock},", 1)
	return strings.Replace(content, imports, imports+"\t\"os\"\n", 1) + movedClock, nil
}

// ahead follows the path of the kubelet in the name of the file with the time.
const ahead = ".ahead"

// moveClock has the kubelet's clock for certificates be ahead of the time by this much from now on.
func moveClock(t *testing.T, kubelet string, by time.Duration) {
	t.Helper()
	file := kubelet + ahead
	require.NoError(t, os.WriteFile(file+".new", []byte(by.String()), 0o600))
	require.NoError(t, os.Rename(file+".new", file)) // the kubelet reads it all the time
}
