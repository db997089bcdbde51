package controlplane

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModuleOfAVersion(t *testing.T) {
	for _, tc := range []struct{ name, version, module string }{
		{KubeAPIServer, "", kubernetesModule},
		{KubeAPIServer, "1.30", kubernetesModule + "/1.30"},
		{Etcd, "1.30", kubernetesModule},
	} {
		module, err := moduleOf(tc.name, tc.version)
		require.NoError(t, err)
		assert.Equal(t, tc.module, module, "%s of %q", tc.name, tc.version)
	}
	_, err := moduleOf(KubeAPIServer, "1.29")
	require.EqualError(t, err, "KUBERNETES=1.29: must be one of 1.30, 1.33, 1.36, 1.37 (default: 1.37)")
	_, err = moduleOf(Kubelet, "1.30")
	require.EqualError(t, err, "KUBERNETES=1.30: kubelet is available for Kubernetes 1.37 only; unset KUBERNETES")
}

// Each version has its modules, and they pin one version of Kubernetes.
func TestModulesOfVersions(t *testing.T) {
	dir, err := findModule(kubernetesModule)
	require.NoError(t, err)
	modules, err := modulesOfVersions(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"1.30", "1.33", "1.36", "1.37"}, slices.Sorted(maps.Keys(modules)))
	require.Equal(t, "1.37", currentVersion(modules))
	for version, module := range modules {
		t.Run(version, func(t *testing.T) {
			dir, err := findModule(module)
			require.NoError(t, err)
			if module != kubernetesModule {
				require.Equal(t, version, filepath.Base(dir), "the directory is named after its version")
			}
			content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			patch := strings.TrimPrefix(kubernetesVersion(content)[0], "v1.")
			cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
			cmd.Dir = dir
			out, err := cmd.Output()
			require.NoError(t, err)
			var mod struct {
				Tool    []struct{ Path string }
				Replace []struct {
					New struct{ Path, Version string }
				}
			}
			require.NoError(t, json.Unmarshal(out, &mod))
			var tools []string
			for _, tool := range mod.Tool {
				tools = append(tools, tool.Path)
			}
			for _, name := range ofEveryVersion {
				assert.Contains(t, tools, sources[name].pkg)
			}
			require.NotEmpty(t, mod.Replace)
			for _, replaced := range mod.Replace {
				assert.Equal(t, "v0."+patch, replaced.New.Version, "%s has another version than k8s.io/kubernetes", replaced.New.Path)
			}
		})
	}
}

func TestMinorOfAnAPIServer(t *testing.T) {
	server := filepath.Join(t.TempDir(), "kube-apiserver")
	say := func(what string) {
		require.NoError(t, os.WriteFile(server, []byte("#!/bin/sh\n"+what+"\n"), 0o755))
	}
	say(`test "$1" = --version && echo "Kubernetes v1.30.14-gke.100"`)
	minor, err := minorOf(t.Context(), server)
	require.NoError(t, err)
	require.Equal(t, 30, minor)
	say("echo none")
	_, err = minorOf(t.Context(), server)
	require.EqualError(t, err, server+` --version: output "none\n": must begin with "Kubernetes v1.x."`)
	say("exit 3")
	_, err = minorOf(t.Context(), server)
	require.EqualError(t, err, server+" --version: exit status 3")
}

func TestFeatureArgs(t *testing.T) {
	for _, tc := range []struct {
		minor int
		on    bool
		want  []string
	}{
		{35, false, []string{
			"--feature-gates=ClusterTrustBundle=false,ClusterTrustBundleProjection=false",
			"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=false",
		}},
		{36, true, []string{
			"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
			"--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true,certificates.k8s.io/v1beta1/podcertificaterequests=true",
		}},
		{37, true, nil}, // on by default
		{37, false, []string{"--feature-gates=ClusterTrustBundle=false,ClusterTrustBundleProjection=false,PodCertificateRequest=false"}},
	} {
		assert.Equal(t, tc.want, featureArgs(tc.minor, tc.on, Features()), "1.%d", tc.minor)
	}
}
