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

// envKubernetes selects the version of Kubernetes to build, such as 1.30. Default: the current one.
const envKubernetes = "KUBERNETES"

// ofEveryVersion are the binaries that are built in each version of Kubernetes: those of a control
// plane, and kubectl. Nodes have the current version only.
var ofEveryVersion = []string{KubeAPIServer, KubeControllerManager, Kubectl}

// moduleOf returns the module that a binary is built from if $KUBERNETES is version. All versions
// use the same etcd, as each version of Kubernetes supports newer ones.
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
		return "", fmt.Errorf("%s=%s: must be one of %s (default: %s)", envKubernetes, version,
			strings.Join(sortedVersions(modules), ", "), currentVersion(modules))
	case chosen != kubernetesModule && !slices.Contains(ofEveryVersion, name):
		return "", fmt.Errorf("%s=%s: %s is available for Kubernetes %s only; unset %s", envKubernetes, version, name,
			currentVersion(modules), envKubernetes)
	}
	return chosen, nil
}

// modulesOfVersions returns the modules that build Kubernetes, by version: the one in dir, of the
// current version, and those in directories below it, which are named after their versions.
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
			return nil, fmt.Errorf("%s does not require k8s.io/kubernetes", file)
		}
		modules[version[1]+"."+version[2]] = module
	}
	return modules, nil
}

// currentVersion returns the version that is built by default.
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

// minorLine matches the output of kube-apiserver --version.
var minorLine = regexp.MustCompile(`^Kubernetes v1\.(\d+)\.`)

// minorOf returns the x of kube-apiserver's version 1.x, which is arbitrary with $KUBEBUILDER_ASSETS.
func minorOf(ctx context.Context, apiServer string) (int, error) {
	output, err := exec.CommandContext(ctx, apiServer, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", apiServer, cmp.Or(ctx.Err(), err)) // "signal: killed" would not say why
	}
	m := minorLine.FindSubmatch(output)
	if m == nil {
		return 0, fmt.Errorf("%s --version: output %q: must begin with \"Kubernetes v1.x.\"", apiServer, output)
	}
	return strconv.Atoi(string(m[1]))
}
