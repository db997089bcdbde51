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

// The binaries that can be asked for. Those from CoreDNS on are what pods of a node run
// (package node), so they are static as the others are.
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
	// envCache names another directory for the binaries that are built here.
	envCache = "SERVINGCERT_CONTROLPLANE_CACHE"
)

// The modules that pin what is built, each by itself, so that they share no
// requirements.
const (
	kubernetesModule    = "hack/controlplane/build"
	corednsModule       = "hack/node/build/coredns"
	metricsServerModule = "hack/node/build/metrics-server"
	certManagerModule   = "hack/node/build/cert-manager"
	prometheusModule    = "hack/node/build/prometheus"
	traefikModule       = "hack/node/build/traefik"
)

// source says what to build for a binary and, for the one line before a build,
// how long that takes on two cores with nothing cached.
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

// changes are those without which a binary cannot be built, or ends by itself.
var changes = map[string]Change{
	KubeAPIServer: {"k8s.io/apiserver", "pkg/admission/plugin/policy/validating/plugin.go", typesOfItsOwn},
	Traefik: {"github.com/go-acme/lego/v5", "providers/dns/zz_gen_dns_providers.go", func(string) (string, error) {
		dir, err := findModule(traefikModule)
		if err != nil {
			return "", err
		}
		content, err := os.ReadFile(filepath.Join(dir, "dns.go"))
		return string(content), err
	}},
}

// typesOfItsOwn gives each ValidatingAdmissionPolicy the types of its variables for itself, as
// Kubernetes does since 1.36 (kubernetes/kubernetes#135757). Before, one map has those of all:
// kube-apiserver ends with "concurrent map read and map write" if a policy is compiled while
// another is evaluated.
func typesOfItsOwn(content string) (string, error) {
	const compile = "\tfilterCompiler := cel.NewCompositedCompilerFromTemplate(compositionEnvTemplate)\n"
	const own = `	compositionEnvTemplate, err := cel.NewCompositionEnv(cel.VariablesTypeName, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), strictCost))
	if err != nil {
		panic(err)
	}
`
	return strings.Replace(content, compile, own+compile, 1), nil
}

// moduleFlags are flags of go build for what a module builds.
var moduleFlags = map[string][]string{
	// Of service discovery Kubernetes' alone: that of clouds would take most of the time.
	prometheusModule: {"-tags", "remove_all_sd,enable_kubernetes_sd"},
}

// inAssets are the binaries that envtest's archives have. Of a user's directory
// they are expected; the others are built when it lacks them.
var inAssets = []string{Etcd, KubeAPIServer, Kubectl}

// Binaries returns the path of each named binary (Etcd, KubeAPIServer, …).
//
// Those in directory $KUBEBUILDER_ASSETS win. envtest's archives have etcd,
// kube-apiserver and kubectl: it is an error if one of these is missing there, any
// other is then built, and log says so. Without the variable all are built from the
// modules in which they are pinned, one after the other, each reported on log, into
// $SERVINGCERT_CONTROLPLANE_CACHE or the user's cache directory. A second call finds
// them there. Processes that call it at the same time build once; the others wait.
// $KUBERNETES asks for a version of Kubernetes, such as 1.30, by its directory below the
// module of the current one.
func Binaries(ctx context.Context, log io.Writer, names ...string) (map[string]string, error) {
	for _, name := range names {
		if _, ok := sources[name]; !ok {
			return nil, fmt.Errorf("binary %q is unknown: there are %s",
				name, strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
		}
	}
	found, missing, err := assets(os.Getenv(envAssets), names)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && len(missing) > 0 {
		fmt.Fprintf(log, "%s has no %s: the pinned version is used\n", envAssets, strings.Join(missing, ", "))
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
		case !slices.Contains(inAssets, name):
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
