//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// movedClock is added to the kubelet's package that requests certificates of pods. A file next to the
// kubelet contains by how much this package's clock is ahead.
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

// learnsOfDeletion replaces a conversion that makes the kubelet of 1.37.2 exit: if a watch was
// interrupted, a deletion is passed as a DeletedFinalStateUnknown. On other nodes, systemd restarts the
// kubelet; here, nothing does.
const learnsOfDeletion = `
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			pcr := obj.(*certificatesv1.PodCertificateRequest)`

// changeKubelet replaces the node's kubelet by one with a clock that can be moved and without the
// fault above, and returns its path. As the fault may occur whenever the API server was down, this
// happens before the scenes create pods.
func (c *cluster) changeKubelet(ctx context.Context) (string, error) {
	path, err := filepath.Abs(filepath.Join(*outDir, "kubelet"))
	if err != nil {
		return "", err
	}
	err = controlplane.BuildChanged(ctx, os.Stderr, controlplane.Kubelet, controlplane.Change{
		Module: "k8s.io/kubernetes", File: "pkg/kubelet/podcertificate/podcertificatemanager.go", Apply: changedSource,
	}, path)
	if err != nil {
		return "", err
	}
	if err := os.Remove(path + ahead); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier run
		return "", err
	}
	return path, c.machine.Replace(ctx, controlplane.Kubelet, path)
}

func changedSource(content string) (string, error) {
	for _, change := range []struct{ what, from, to string }{
		{"its imports", "\nimport (\n", "\nimport (\n\t\"os\"\n"},
		{"how its clock is set", "clock:        clock,", "clock:        movedClock{clock},"},
		{
			"how it handles a deletion", `DeleteFunc: func(obj any) {
			pcr := obj.(*certificatesv1.PodCertificateRequest)`, "DeleteFunc: func(obj any) {" + learnsOfDeletion,
		},
	} {
		if strings.Count(content, change.from) != 1 {
			return "", fmt.Errorf("%s: the code has changed", change.what)
		}
		content = strings.Replace(content, change.from, change.to, 1)
	}
	return content + movedClock, nil
}

// ahead is appended to the kubelet's path in the name of the file.
const ahead = ".ahead"

// moveClock sets by how much the kubelet's clock for certificates is ahead.
func moveClock(t *testing.T, kubelet string, by time.Duration) {
	t.Helper()
	file := kubelet + ahead
	require.NoError(t, os.WriteFile(file+".new", []byte(by.String()), 0o600))
	require.NoError(t, os.Rename(file+".new", file)) // the kubelet reads it at any time
}
