package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// envKubernetes chooses the version of Kubernetes that is built, such as 1.30. Without it
// the current one is.
const envKubernetes = "KUBERNETES"

// ofEveryVersion are the binaries that each version of Kubernetes is built of: what a control
// plane runs, and the client of its age. A node is of the current version only.
var ofEveryVersion = []string{KubeAPIServer, KubeControllerManager, Kubectl}

// moduleOf returns the module that a binary is built from when $KUBERNETES is version. etcd
// is the same for all: each version of Kubernetes speaks with a newer one.
func moduleOf(name, version string) (string, error) {
	module := sources[name].module
	if module != kubernetesModule || name == Etcd || version == "" {
		return module, nil
	}
	current, err := findModule(kubernetesModule)
	if err != nil {
		return "", err
	}
	modules, err := modulesOfVersions(current)
	if err != nil {
		return "", err
	}
	chosen, ok := modules[version]
	switch {
	case !ok:
		return "", fmt.Errorf("%s=%s: want one of %s; without it %s is used", envKubernetes, version,
			strings.Join(sortedVersions(modules), ", "), currentVersion(modules))
	case chosen != kubernetesModule && !slices.Contains(ofEveryVersion, name):
		return "", fmt.Errorf("%s=%s: %s is built of Kubernetes %s only; unset %s", envKubernetes, version, name,
			currentVersion(modules), envKubernetes)
	}
	return chosen, nil
}

// modulesOfVersions returns the modules that build a version of Kubernetes, by that version:
// the one in dir, of the current version, and those in the directories below it, each named
// after its version.
func modulesOfVersions(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	modules := map[string]string{}
	for _, file := range append(files, filepath.Join(dir, "go.mod")) {
		mod, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		module := kubernetesModule
		if filepath.Dir(file) != dir {
			module += "/" + filepath.Base(filepath.Dir(file))
		}
		version := kubernetesVersion(mod)
		if version == nil {
			return nil, fmt.Errorf("%s requires no k8s.io/kubernetes", file)
		}
		modules[version[1]+"."+version[2]] = module
	}
	return modules, nil
}

// currentVersion is the version that is built when none is asked for.
func currentVersion(modules map[string]string) string {
	for version, module := range modules {
		if module == kubernetesModule {
			return version
		}
	}
	return ""
}

func sortedVersions(modules map[string]string) []string {
	var versions []string
	for version := range modules {
		versions = append(versions, version)
	}
	slices.SortFunc(versions, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return versions
}

// minorLine is what kube-apiserver --version prints.
var minorLine = regexp.MustCompile(`^Kubernetes v1\.(\d+)\.`)

// minorOf asks a kube-apiserver which Kubernetes 1.x it is: with $KUBEBUILDER_ASSETS it may
// be any.
func minorOf(ctx context.Context, apiServer string) (int, error) {
	said, err := exec.CommandContext(ctx, apiServer, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", apiServer, cmp.Or(ctx.Err(), err)) // of one that was killed it says no more
	}
	m := minorLine.FindSubmatch(said)
	if m == nil {
		return 0, fmt.Errorf("%s --version says %q, and not which Kubernetes 1.x it is", apiServer, said)
	}
	return strconv.Atoi(string(m[1]))
}
