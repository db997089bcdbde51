package controlplane

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The binaries that can be asked for.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	Kubectl               = "kubectl"
)

const (
	// envAssets is envtest's variable: a directory with binaries to use.
	envAssets = "KUBEBUILDER_ASSETS"
	// envCache names another directory for the binaries that are built here.
	envCache = "SERVINGCERT_CONTROLPLANE_CACHE"
)

// source says what to build for a binary and, for the one line before a build,
// how long that takes on two cores with nothing cached.
type source struct {
	pkg   string
	coldT string
}

var sources = map[string]source{
	Etcd:                  {"go.etcd.io/etcd/server/v3", "half a minute"},
	KubeAPIServer:         {"k8s.io/kubernetes/cmd/kube-apiserver", "4 minutes"},
	KubeControllerManager: {"k8s.io/kubernetes/cmd/kube-controller-manager", "a minute"},
	Kubectl:               {"k8s.io/kubernetes/cmd/kubectl", "half a minute"},
}

// Binaries returns the path of each named binary (Etcd, KubeAPIServer, …).
//
// Those in directory $KUBEBUILDER_ASSETS win. envtest's archives have no
// kube-controller-manager: that one is then built, and log says so; any other
// that is missing there is an error. Without the variable all are built from the
// modules that hack/controlplane/build pins, one after the other, each reported on
// log, into $SERVINGCERT_CONTROLPLANE_CACHE or the user's cache directory. A
// second call finds them there. Processes that call it at the same time build
// once; the others wait.
func Binaries(ctx context.Context, log io.Writer, names ...string) (map[string]string, error) {
	for _, name := range names {
		if _, ok := sources[name]; !ok {
			return nil, fmt.Errorf("binary %q is unknown: there are %s, %s, %s and %s",
				name, Etcd, KubeAPIServer, KubeControllerManager, Kubectl)
		}
	}
	found, missing, err := assets(os.Getenv(envAssets), names)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return found, nil
	}
	if len(found) > 0 {
		fmt.Fprintf(log, "%s has no %s: the pinned version is used\n", envAssets, strings.Join(missing, ", "))
	}
	b, err := newBuilder(log)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		if found[name], err = b.binary(ctx, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// assets looks for names in a directory of the user, "" for none.
func assets(dir string, names []string) (found map[string]string, missing []string, err error) {
	found = map[string]string{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch {
		case dir == "":
			missing = append(missing, name)
		case isExecutable(path):
			found[name] = path
		case name == KubeControllerManager:
			missing = append(missing, name)
		default:
			return nil, nil, fmt.Errorf("%s=%s has no executable %s; unset it and the pinned version is built",
				envAssets, dir, name)
		}
	}
	return found, missing, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
