package controller

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
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
	warningDesc = prometheus.NewDesc("servingcert_ca_warning",
		"1 for each reason of a current warning, 0 for every other: CAEnding is an imported CA that ends soon.", []string{"reason"}, nil)
	phaseDesc = prometheus.NewDesc("servingcert_ca_phase",
		"1 for the phase that the succession of the CA is in, 0 for every other.", []string{"phase"}, nil)
	generationDesc = prometheus.NewDesc("servingcert_ca_generation_info",
		"1 for each generation of the CA, with its state: waiting, signing, trusted (older, with certificates in use) or retired (only its part of the chain is left).",
		[]string{"generation", "subject", "state"}, nil)
)

// collector collects the metrics of a Controller.
type collector struct{ *Controller }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{notAfterDesc, usedUntilDesc, signingDesc, problemDesc, warningDesc, phaseDesc, generationDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A replica that does not lead has not read
// the CA and returns no series.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.current.Load()
	if s.standby {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	now := c.problem(s).Reason
	for _, reason := range api.CAProblems() {
		gauge(problemDesc, oneIf(reason == now), reason)
	}
	for _, reason := range api.CAWarnings() {
		gauge(warningDesc, oneIf(slices.ContainsFunc(s.warnings, func(w api.CAMessage) bool { return w.Reason == reason })), reason)
	}
	if s.state == nil {
		return
	}
	gauge(signingDesc, float64(s.state.Signing))
	for _, phase := range api.CAPhases() {
		gauge(phaseDesc, oneIf(phase == s.phase), phase)
	}
	for _, g := range s.state.Generations {
		number := strconv.Itoa(g.Number)
		gauge(notAfterDesc, float64(g.Ends().Unix()), number)
		gauge(generationDesc, 1, number, g.Issuer().Subject.CommonName, role(g, s.state.Signing))
		if !g.UsedUntil.IsZero() {
			gauge(usedUntilDesc, float64(g.UsedUntil.Unix()), number)
		}
	}
}

// role returns the role of a generation in metrics.
func role(g ca.Generation, signing int) string {
	switch {
	case g.Number == signing:
		return "signing"
	case g.Number > signing:
		return "waiting"
	case g.Retired:
		return "retired"
	}
	return "trusted"
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
