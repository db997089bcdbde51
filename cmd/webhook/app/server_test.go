package app

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/cmd/internal/port"
)

// bounds are the limits of a port in tests.
func bounds() port.Config {
	return port.Config{Name: "reviews", MaxConnections: port.DefaultConnections, Evicted: prometheus.NewCounter(prometheus.CounterOpts{Name: "evicted"}), Log: logr.Discard()}
}
