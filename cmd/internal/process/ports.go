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

// Bounds returns those of each port of the process, for what is served there.
func (c *Common) Bounds(name string) port.Config {
	return port.Config{
		Name: name, MaxConnections: c.MaxConnections,
		Evicted: c.evicted.WithLabelValues(name), Log: ctrl.Log.WithName(name),
	}
}

// AddChecks serves liveness, and readiness by the given check, whether the process leads or
// not, and before the caches have synced. It returns an error if the address cannot be
// listened on.
func (c *Common) AddChecks(mgr manager.Manager, readyName string, ready healthz.Checker) error {
	if c.HealthAddr == "0" {
		return nil
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": {readyName: ready}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // a check by its name
	}
	served := c.Bounds("health")
	served.Handler, served.WriteTimeout = mux, healthWriteTimeout
	served.OneRequest = true // probes are made so, and whoever else asks has proved nothing
	return managed.Add(mgr, served, c.HealthAddr, healthShutdownTimeout)
}
