package process

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/cmd/internal/port/managed"
)

const (
	healthWriteTimeout    = 10 * time.Second
	healthShutdownTimeout = time.Second // no probe takes longer
)

func newEvictedMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "servingcert_connections_evicted_total",
		Help: "Connections that were closed to make room for others because their port had --max-connections of them, by what the port serves: health, metrics or reviews.",
	}, []string{"port"})
}

// Bounds returns the configuration of the port with this name.
func (c *Common) Bounds(name string) port.Config {
	return port.Config{
		Name: name, MaxConnections: c.MaxConnections,
		Evicted: c.evicted.WithLabelValues(name), Log: ctrl.Log.WithName(name),
	}
}

// AddChecks serves liveness and the given readiness check, leading or not, before the caches have
// synced. Both fail while a worker is stuck. It returns an error if it cannot listen on the address.
func (c *Common) AddChecks(mgr manager.Manager, readyName string, ready healthz.Checker) error {
	if c.HealthAddr == "0" {
		return nil
	}
	served := c.Bounds("health")
	served.Handler, served.WriteTimeout = newWorkers(ctrl.Log.WithName("health")).checks(readyName, ready), healthWriteTimeout
	served.OneRequest = true // as probes do
	return managed.Add(mgr, served, c.HealthAddr, healthShutdownTimeout)
}

// checks returns the pages of AddChecks.
func (w *workers) checks(readyName string, ready healthz.Checker) http.Handler {
	mux := http.NewServeMux()
	for _, page := range []struct {
		path   string
		checks map[string]healthz.Checker
		times  int // of patience with a worker
	}{
		{"/healthz", map[string]healthz.Checker{"ping": healthz.Ping}, restartAfter},
		{"/readyz", map[string]healthz.Checker{readyName: ready}, 1},
	} {
		handler := w.before(http.StripPrefix(page.path, &healthz.Handler{Checks: page.checks}), page.times)
		mux.Handle(page.path, handler)
		mux.Handle(page.path+"/", handler) // a single check
	}
	return mux
}
