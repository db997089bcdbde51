package ca

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	notAfterDesc = prometheus.NewDesc("servingcert_ca_not_after_timestamp_seconds",
		"When the root of a generation of the CA expires, in seconds since 1970.", []string{"generation"}, nil)
	usedUntilDesc = prometheus.NewDesc("servingcert_ca_used_until_timestamp_seconds",
		"Until when certificates of a generation of the CA may be in use, in seconds since 1970.", []string{"generation"}, nil)
	signingDesc = prometheus.NewDesc("servingcert_ca_signing_generation",
		"The number of the generation of the CA that signs.", nil, nil)
	problemDesc = prometheus.NewDesc("servingcert_ca_problem",
		"1 for the reason why no certificate can be issued, 0 for every other reason.", []string{"reason"}, nil)
	constraintsDesc = prometheus.NewDesc("servingcert_ca_constraints_changed",
		"1 if the flags permit other names than the CA does, else 0.", nil, nil)
)

// problems are all the reasons that servingcert_ca_problem has a series for.
var problems = []string{ReasonPending, ReasonLost, ReasonCorrupt, ReasonNotYetValid, ReasonExpired}

// Describe implements prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{notAfterDesc, usedUntilDesc, signingDesc, problemDesc, constraintsDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A replica that does not lead knows
// nothing of the CA and gives no series.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	s := c.current.Load()
	if s.standby {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	var now string
	if problem := c.problem(s); problem != nil {
		now = problem.reason
	}
	for _, reason := range problems {
		gauge(problemDesc, oneIf(reason == now), reason)
	}
	gauge(constraintsDesc, oneIf(s.warning != ""))
	if s.state == nil {
		return
	}
	gauge(signingDesc, float64(s.state.Signing))
	for _, g := range s.state.Generations {
		number := strconv.Itoa(g.Number)
		gauge(notAfterDesc, float64(g.Root.NotAfter.Unix()), number)
		if !g.UsedUntil.IsZero() {
			gauge(usedUntilDesc, float64(g.UsedUntil.Unix()), number)
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
