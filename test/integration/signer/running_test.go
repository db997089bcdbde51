package signer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// deployment is where a signer keeps its CA, and what marks its Secrets. Signers
// of one deployment are replicas, or the same one before and after a restart.
type deployment struct{ namespace, instance string }

func newDeployment(t *testing.T) deployment {
	name := "sys-" + utilrand.String(6)
	makeNamespace(t, name, nil)
	return deployment{name, name}
}

// running is a signer that runs, in this process or in its own.
type running struct {
	deployment
	log      *harness.Log
	clock    *harness.Clock       // in this process only
	registry *prometheus.Registry // in this process only
	metrics  string               // URL, in its own process only
	ready    string               // URL, in its own process only
	stop     func() error
}

// options of a signer in this process.
type options struct {
	clock  *harness.Clock
	limits func(*api.Limits)
	wrap   func(http.RoundTripper) http.RoundTripper

	conventional bool // publishes where conventional Secrets are, at once
	notices      bool // reports a namespace without the label at once
}

// startHere runs a signer in this process, wired as cmd/signer wires it, where
// the race detector sees it and its clock can be set.
func startHere(t *testing.T, d deployment, o options) *running {
	t.Helper()
	r, err := here(d, o)
	require.NoError(t, err)
	t.Cleanup(func() { finish(t, r) })
	return r
}

func here(d deployment, o options) (*running, error) {
	if o.clock == nil {
		o.clock = &harness.Clock{}
	}
	limits := api.DefaultLimits()
	if o.limits != nil {
		o.limits(&limits)
	}
	r := &running{deployment: d, log: &harness.Log{}, clock: o.clock, registry: prometheus.NewRegistry()}
	cfg := plane.AdminConfig()
	if o.wrap != nil {
		cfg.Wrap(o.wrap)
	}
	mgr, err := newManager(cfg, d, r.log)
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	authority, err := cacontroller.Setup(mgr, cacontroller.Config{
		Namespace:    d.namespace,
		Parameters:   ca.Parameters{MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(), Domain: limits.ClusterDomain},
		Clock:        o.clock.Now,
		ManagedExist: func(ctx context.Context) (bool, error) { return managedExist(ctx, d.instance) },
		OnChange: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
		Registerer: r.registry,
	})
	if err != nil {
		return nil, err
	}
	sign, err := cfssl.NewLocal()
	if err != nil {
		return nil, err
	}
	config := signercontroller.Config{
		Instance: d.instance, Limits: limits, Workers: 4, Sign: sign,
		Authority:        func() (*pki.Authority, error) { return authority.Authority() },
		AuthorityChanged: changed, Clock: o.clock.Now, Registerer: r.registry,
	}
	if o.conventional {
		config.Namespace, config.ConventionalDelay = d.namespace, harness.Tick
	}
	if o.notices {
		config.NoticeDelay = harness.Tick
	}
	if _, err = signercontroller.Setup(mgr, config); err != nil {
		return nil, err
	}
	r.stop = harness.RunManager(mgr)
	return r, nil
}

func newManager(cfg *rest.Config, d deployment, log io.Writer) (ctrl.Manager, error) {
	cacheOptions, err := signercontroller.Config{Instance: d.instance}.CacheOptions()
	if err != nil {
		return nil, err
	}
	yes := true
	return ctrl.NewManager(cfg, ctrl.Options{
		Cache:      cacheOptions,
		Metrics:    ctrlmetricsserver.Options{BindAddress: "0"},
		Logger:     logr.FromSlogHandler(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Controller: config.Controller{SkipNameValidation: &yes},
	})
}

// startProcess runs the binary.
func startProcess(t *testing.T, d deployment, flags ...string) *running {
	t.Helper()
	metrics, err := harness.FreeAddress()
	require.NoError(t, err)
	p := &harness.Program{Path: binary, Args: append([]string{
		"--kubeconfig=" + plane.KubeconfigFile(), "--namespace=" + d.namespace, "--instance=" + d.instance,
		"--metrics-addr=" + metrics, "--metrics-insecure", "--leader-elect=false", "--log-level=debug",
	}, flags...)}
	p.Launch(t)
	r := &running{deployment: d, log: &p.Log, metrics: "http://" + metrics + "/metrics", ready: "http://" + p.Health() + "/readyz"}
	r.stop = sync.OnceValue(p.Stop)
	t.Cleanup(func() { finish(t, r) })
	return r
}

// finish stops the signer, which must end well, and have told nobody a key.
func finish(t *testing.T, r *running) {
	if err := r.stop(); err != nil {
		t.Errorf("the signer ended with: %v", err)
	}
	if err := keyIn(r.log.String(), ""); err != nil {
		t.Error(err)
	}
	if t.Failed() && r.clock != nil { // that of a process is shown anyway
		t.Logf("log of the signer:\n%s", r.log)
	}
}

// metric returns the value of a series as it is scraped, and whether there is one.
func (r *running) metric(series string) (value string, ok bool) {
	_, body, err := harness.Get(context.Background(), r.metrics)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(body) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// shared is the signer of the tests that run in parallel. It runs while one of
// them does: the others must find none.
var shared struct {
	mu    sync.Mutex
	users int
	*running
}

func sharedSigner(t *testing.T) *running {
	t.Helper()
	t.Parallel()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		r, err := here(deployment{"sys-shared", "shared"}, options{limits: func(l *api.Limits) {
			l.PermitDNSSuffixes = []api.SuffixRule{{NamespaceGlob: "ext-*", Suffix: "apps.example.com"}}
		}})
		require.NoError(t, err)
		shared.running = r
	}
	shared.users++
	r := shared.running
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the shared signer, as far as it says %q:\n%s", namespaceOf(t), linesWith(r.log.String(), namespaceOf(t)))
		}
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			if err := errors.Join(r.stop(), keyIn(r.log.String(), "")); err != nil {
				t.Errorf("the shared signer: %v", err)
			}
		}
	})
	return r
}

func linesWith(text, part string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			out.WriteString(line)
		}
	}
	return out.String()
}

const waitFor = harness.Soon

// now is the signer's clock.
func (r *running) now() time.Time {
	if r.clock == nil {
		return time.Now()
	}
	return r.clock.Now()
}

func managedExist(ctx context.Context, instance string) (bool, error) {
	list, err := admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: api.LabelManagedBy + "=" + instance})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(s corev1.Secret) bool { return signer.Plausible(&s, instance) }), nil
}

// saysRetained reports whether a metric of a signer in this process says that
// the Secret is retained.
func (r *running) saysRetained(t *testing.T, namespace, secret string) bool {
	t.Helper()
	return r.value(t, "servingcert_certificate_retained", "namespace", namespace, "secret", secret) > 0
}

// value returns the sum of the series of a signer in this process that have the labels (name, value, …).
func (r *running) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	return harness.Metrics(t, r.registry).Sum(name, labels...)
}
