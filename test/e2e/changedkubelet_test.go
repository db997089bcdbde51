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

// learnsOfDeletion takes the place of a conversion by which the kubelet of 1.37.2 ends: a deletion
// that it learns of from a list, as its watch was broken, comes as a DeletedFinalStateUnknown.
// On other nodes systemd starts such a kubelet again; here it would be gone for good.
const learnsOfDeletion = `
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			pcr := obj.(*certificatesv1.PodCertificateRequest)`

// changeKubelet starts the kubelet that is pinned, with a clock that can be moved and without
// its fault, in place of the node's, and returns its path. The fault may end a kubelet whenever
// the API server was away, so it is changed before there is a pod of a scene.
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
	if err := os.Remove(path + ahead); err != nil && !errors.Is(err, os.ErrNotExist) { // of a run before
		return "", err
	}
	return path, c.machine.Replace(ctx, controlplane.Kubelet, path)
}

func changedSource(content string) (string, error) {
	for _, change := range []struct{ what, from, to string }{
		{"its imports", "\nimport (\n", "\nimport (\n\t\"os\"\n"},
		{"how its clock is set", "clock:        clock,", "clock:        movedClock{clock},"},
		{
			"what it does with a deletion", `DeleteFunc: func(obj any) {
			pcr := obj.(*certificatesv1.PodCertificateRequest)`, "DeleteFunc: func(obj any) {" + learnsOfDeletion,
		},
	} {
		if strings.Count(content, change.from) != 1 {
			return "", fmt.Errorf("%s is not what it was", change.what)
		}
		content = strings.Replace(content, change.from, change.to, 1)
	}
	return content + movedClock, nil
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
