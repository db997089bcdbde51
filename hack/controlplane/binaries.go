package controlplane

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names of the binaries. Those from CoreDNS on run in pods of a node (package node).
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeScheduler         = "kube-scheduler"
	KubeProxy             = "kube-proxy"
	Kubelet               = "kubelet"
	Kubectl               = "kubectl"
	CoreDNS               = "coredns"
	MetricsServer         = "metrics-server"
	CertManager           = "cert-manager"
	Prometheus            = "prometheus"
	Traefik               = "traefik"
)

const (
	// envAssets is envtest's variable: a directory with binaries to use.
	envAssets = "KUBEBUILDER_ASSETS"
	// envCache replaces the directory of the binaries that are built here.
	envCache = "SERVINGCERT_CONTROLPLANE_CACHE"
)

// The modules that pin the versions of the binaries. They are separate, so that they share no
// requirements.
const (
	kubernetesModule    = "hack/controlplane/build"
	corednsModule       = "hack/node/build/coredns"
	metricsServerModule = "hack/node/build/metrics-server"
	certManagerModule   = "hack/node/build/cert-manager"
	prometheusModule    = "hack/node/build/prometheus"
	traefikModule       = "hack/node/build/traefik"
)

// source is the package of a binary, with the time that a build without caches takes on two
// cores, which is printed before the build.
type source struct {
	module string
	pkg    string
	coldT  string
}

var sources = map[string]source{
	Etcd:                  {kubernetesModule, "go.etcd.io/etcd/server/v3", "half a minute"},
	KubeAPIServer:         {kubernetesModule, "k8s.io/kubernetes/cmd/kube-apiserver", "4 minutes"},
	KubeControllerManager: {kubernetesModule, "k8s.io/kubernetes/cmd/kube-controller-manager", "a minute"},
	KubeScheduler:         {kubernetesModule, "k8s.io/kubernetes/cmd/kube-scheduler", "half a minute"},
	KubeProxy:             {kubernetesModule, "k8s.io/kubernetes/cmd/kube-proxy", "half a minute"},
	Kubelet:               {kubernetesModule, "k8s.io/kubernetes/cmd/kubelet", "a minute"},
	Kubectl:               {kubernetesModule, "k8s.io/kubernetes/cmd/kubectl", "half a minute"},
	CoreDNS:               {corednsModule, ".", "a minute"},
	MetricsServer:         {metricsServerModule, "sigs.k8s.io/metrics-server/cmd/metrics-server", "2 minutes"},
	CertManager:           {certManagerModule, ".", "2 minutes"},
	Prometheus:            {prometheusModule, "github.com/prometheus/prometheus/cmd/prometheus", "2 minutes"},
	Traefik:               {traefikModule, "github.com/traefik/traefik/v3/cmd/traefik", "4 minutes"},
}

// changes are the changes without which a binary cannot be built, or crashes.
var changes = map[string]Change{
	KubeAPIServer: {"k8s.io/apiserver", "pkg/admission/plugin/policy/validating/plugin.go", ownVariableTypes},
	Traefik: {"github.com/go-acme/lego/v5", "providers/dns/zz_gen_dns_providers.go", func(string) (string, error) {
		dir, err := findModule(traefikModule)
		if err != nil {
			return "", err
		}
		content, err := os.ReadFile(filepath.Join(dir, "dns.go"))
		return string(content), err
	}},
}

// ownVariableTypes gives each ValidatingAdmissionPolicy its own map of variable types, as Kubernetes
// does since 1.36 (kubernetes/kubernetes#135757). Before, all policies share one map: kube-apiserver
// exits with "concurrent map read and map write" if a policy is compiled while another is evaluated.
func ownVariableTypes(content string) (string, error) {
	const compile = "\tfilterCompiler := cel.NewCompositedCompilerFromTemplate(compositionEnvTemplate)\n"
	const own = `	compositionEnvTemplate, err := cel.NewCompositionEnv(cel.VariablesTypeName, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), strictCost))
	if err != nil {
		panic(err)
	}
`
	return strings.Replace(content, compile, own+compile, 1), nil
}

// moduleFlags are flags of go build, by module.
var moduleFlags = map[string][]string{
	// Only Kubernetes' service discovery: that of clouds takes most of the build time.
	prometheusModule: {"-tags", "remove_all_sd,enable_kubernetes_sd"},
}

// inAssets are the binaries in envtest's archives. A user's directory must contain them;
// others are built if it does not.
var inAssets = []string{Etcd, KubeAPIServer, Kubectl}

// Binaries returns the path of each named binary (Etcd, KubeAPIServer, …).
//
// Binaries in directory $KUBEBUILDER_ASSETS take precedence. It is an error if it lacks one that
// envtest's archives contain: etcd, kube-apiserver or kubectl. Other binaries, and all of them if
// the variable is not set, are built from the modules that pin their versions, one after the other,
// into $SERVINGCERT_CONTROLPLANE_CACHE or the user's cache directory, where later calls find them.
// log receives the progress. Concurrent processes build each binary once. $KUBERNETES selects a
// version of Kubernetes, such as 1.30.
func Binaries(ctx context.Context, log io.Writer, names ...string) (map[string]string, error) {
	for _, name := range names {
		if _, ok := sources[name]; !ok {
			return nil, fmt.Errorf("binary %q: must be one of %s",
				name, strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
		}
	}
	found, missing, err := assets(os.Getenv(envAssets), names)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && len(missing) > 0 {
		fmt.Fprintf(log, "%s has no %s: using the pinned version\n", envAssets, strings.Join(missing, ", "))
	}
	for _, name := range missing {
		module, err := moduleOf(name, os.Getenv(envKubernetes))
		if err != nil {
			return nil, err
		}
		b, err := newBuilder(log, module)
		if err != nil {
			return nil, err
		}
		if found[name], err = b.binary(ctx, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// assets looks for the binaries in the user's directory, which is "" if there is none.
func assets(dir string, names []string) (found map[string]string, missing []string, err error) {
	found = map[string]string{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch {
		case dir == "":
			missing = append(missing, name)
		case isExecutable(path):
			found[name] = path
		case !slices.Contains(inAssets, name):
			missing = append(missing, name)
		default:
			return nil, nil, fmt.Errorf("%s=%s has no executable %s; unset it to build the pinned version",
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
