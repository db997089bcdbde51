package process

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/cmd/internal/certfiles"
	"github.com/servingcert/servingcert/cmd/internal/metricsserver"
	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/cmd/internal/version"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
)

// Common holds the flags of every process.
type Common struct {
	Kubeconfig    string
	KubeAPIQPS    float32
	Namespace     string
	ClusterDomain string
	MetricsAddr   string
	// MetricsCertDir contains tls.crt and tls.key of the metrics server.
	MetricsCertDir  string
	MetricsInsecure bool
	HealthAddr      string
	// MaxConnections is the maximum number of connections of each port.
	MaxConnections int
	LeaderElect    bool
	LogLevel       string
	LogFormat      string

	// Process is the process's name in the build metric, if it differs from the program's.
	Process string

	name    string // of the program
	evicted *prometheus.CounterVec
}

// NewCommon returns the defaults of a process with leader election, or of one whose replicas are all
// active.
func NewCommon(leads bool) *Common {
	return &Common{
		Namespace:      api.DefaultNamespace,
		ClusterDomain:  api.DefaultLimits().ClusterDomain,
		MetricsAddr:    ":8443",
		MetricsCertDir: "/etc/servingcert",
		HealthAddr:     ":8081",
		MaxConnections: port.DefaultConnections,
		LeaderElect:    leads,
		LogLevel:       "info",
		LogFormat:      "text",
		evicted:        newEvictedMetric(),
	}
}

func (c *Common) register(fs *pflag.FlagSet, name string) {
	c.name = name
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "path of a kubeconfig file (default: $KUBECONFIG, or the ServiceAccount of the pod)")
	fs.Float32Var(&c.KubeAPIQPS, "kube-api-qps", c.KubeAPIQPS, "maximum requests per second to the API server; 0: no client-side limit (API Priority and Fairness still applies)")
	fs.StringVar(&c.Namespace, "namespace", c.Namespace, "namespace in which servingcert runs")
	fs.StringVar(&c.ClusterDomain, "cluster-domain", c.ClusterDomain, "DNS domain of the cluster")
	fs.StringVar(&c.MetricsAddr, "metrics-addr", c.MetricsAddr, "address on which /metrics is served over HTTPS, to clients that are authorized to get it; 0: disabled")
	fs.StringVar(&c.MetricsCertDir, "metrics-cert-dir", c.MetricsCertDir, "directory that contains tls.crt and tls.key for /metrics; TLS handshakes fail until they exist, and they are reloaded when they change")
	fs.BoolVar(&c.MetricsInsecure, "metrics-insecure", c.MetricsInsecure, "serve /metrics over plain HTTP and without authentication; --metrics-addr must then be a loopback address")
	fs.StringVar(&c.HealthAddr, "health-addr", c.HealthAddr, "address on which /healthz and /readyz are served over HTTP; 0: disabled")
	fs.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "maximum number of connections to each port; when a port is full, a new connection replaces the least-established one")
	leader := "work only while holding the Lease servingcert-" + name + " in --namespace"
	if !c.LeaderElect {
		leader = "no effect: every replica of this process is active"
	}
	fs.BoolVar(&c.LeaderElect, "leader-elect", c.LeaderElect, leader)
	fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
}

func (c *Common) validate() error {
	if errs := validation.IsDNS1123Label(c.Namespace); len(errs) > 0 {
		return fmt.Errorf("--namespace: %q: not a valid namespace name: %s", c.Namespace, strings.Join(errs, "; "))
	}
	if errs := validation.IsDNS1123Subdomain(c.ClusterDomain); len(errs) > 0 {
		return fmt.Errorf("--cluster-domain: %q: not a valid DNS name: %s", c.ClusterDomain, strings.Join(errs, "; "))
	}
	if c.KubeAPIQPS < 0 {
		return fmt.Errorf(`--kube-api-qps: "%v": must be 0 (no limit) or more`, c.KubeAPIQPS)
	}
	for flag, addr := range map[string]string{"--metrics-addr": c.MetricsAddr, "--health-addr": c.HealthAddr} {
		if addr == "0" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("%s: %q: must be HOST:PORT, :PORT or 0: %w", flag, addr, err)
		}
	}
	if c.MaxConnections < port.MinConnections || c.MaxConnections > port.MaxConnections {
		return fmt.Errorf(`--max-connections: "%d": must be between %d and %d`, c.MaxConnections, port.MinConnections, port.MaxConnections)
	}
	if err := c.validateMetrics(); err != nil {
		return err
	}
	if _, err := c.level(); err != nil {
		return err
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("--log-format: %q: must be text or json", c.LogFormat)
	}
	return nil
}

// validateMetrics checks the flags of metrics, once MetricsAddr is known to be 0 or HOST:PORT.
func (c *Common) validateMetrics() error {
	if c.MetricsAddr == "0" {
		return nil
	}
	if !c.MetricsInsecure {
		if err := certfiles.CheckDir(c.MetricsCertDir); err != nil {
			return fmt.Errorf("--metrics-cert-dir: %w", err)
		}
		return nil
	}
	host, _, _ := net.SplitHostPort(c.MetricsAddr)
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--metrics-addr: %q: must have a loopback IP address with --metrics-insecure, such as 127.0.0.1:8080 or [::1]:8080", c.MetricsAddr)
	}
	return nil
}

func (c *Common) level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("--log-level: %q: must be debug, info, warn or error", c.LogLevel)
	}
	return level, nil
}

// setUpLogging sends the logs of this project, controller-runtime and client-go to one handler.
func (c *Common) setUpLogging(w io.Writer) {
	level, _ := c.level() // validated before
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := logr.FromSlogHandler(handler)
	slog.SetDefault(slog.New(handler))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// RESTConfig returns the connection to the API server, without a rate limit unless one is configured.
func (c *Common) RESTConfig(userAgent string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // $KUBECONFIG, ~/.kube/config
	rules.ExplicitPath = c.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to an API server: %w", err)
	}
	cfg.QPS = -1
	if c.KubeAPIQPS > 0 {
		cfg.QPS, cfg.Burst = c.KubeAPIQPS, max(1, int(2*c.KubeAPIQPS))
	}
	cfg.Wrap(facts.BoundPages)
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " " + userAgent
	return cfg, nil
}

// ManagerOptions returns the manager's options for the flags. leaseName is empty for a process whose
// replicas are all active.
func (c *Common) ManagerOptions(scheme *runtime.Scheme, leaseName string) manager.Options {
	return manager.Options{
		Scheme:                        scheme,
		Metrics:                       ctrlmetricsserver.Options{BindAddress: "0"}, // served by AddMetrics
		HealthProbeBindAddress:        "0",                                         // served by AddChecks
		LeaderElection:                c.LeaderElect && leaseName != "",
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       c.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when Run does
		Controller:                    config.Controller{ReconciliationTimeout: reconcileTimeout},
	}
}

// AddMetrics serves the metrics of controller-runtime's registry, with the build metric. Liveness and
// readiness do not depend on it.
func (c *Common) AddMetrics(mgr manager.Manager) error {
	for _, each := range []prometheus.Collector{newBuildMetric(cmp.Or(c.Process, c.name), version.Get()), c.evicted} {
		if err := metrics.Registry.Register(each); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
	}
	return metricsserver.Add(mgr, metricsserver.Config{
		Address: c.MetricsAddr, CertDir: c.MetricsCertDir, Insecure: c.MetricsInsecure,
		Gatherer: metrics.Registry, Port: c.Bounds("metrics"),
	})
}
