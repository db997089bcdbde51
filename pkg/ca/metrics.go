package ca

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
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
		"1 for each reason of a warning that is being given, 0 for every other: CAEnding is a CA that was imported and ends soon.", []string{"reason"}, nil)
	phaseDesc = prometheus.NewDesc("servingcert_ca_phase",
		"1 for the phase that the succession of the CA is in, 0 for every other.", []string{"phase"}, nil)
	generationDesc = prometheus.NewDesc("servingcert_ca_generation_info",
		"1 for each generation of the CA that there is, with its state: waiting, signing, trusted (older, with certificates in use) or retired (only its part of the chain is left).",
		[]string{"generation", "subject", "state"}, nil)
)

// problems are all the reasons that servingcert_ca_problem has a series for.
var problems = []string{ReasonPending, ReasonLost, ReasonCorrupt, ReasonNotYetValid, ReasonExpired, ReasonUnreachable, ReasonWaitingForTrust}

// warnings are all the reasons that servingcert_ca_warning has a series for.
var warnings = []string{WarnConstraints, WarnEnding, WarnImport, WarnRemote, WarnRequest, WarnLadder, WarnRestored}

// phases are all that servingcert_ca_phase has a series for.
var phases = []string{api.PhaseStable, api.PhaseWait, api.PhaseReissue, api.PhaseRetire}

// Describe implements prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{notAfterDesc, usedUntilDesc, signingDesc, problemDesc, warningDesc, phaseDesc, generationDesc} {
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
	for _, reason := range warnings {
		gauge(warningDesc, oneIf(slices.ContainsFunc(s.warnings, func(w Warning) bool { return w.Reason == reason })), reason)
	}
	if s.state == nil {
		return
	}
	gauge(signingDesc, float64(s.state.Signing))
	for _, phase := range phases {
		gauge(phaseDesc, oneIf(phase == s.phase), phase)
	}
	for _, g := range s.state.Generations {
		number := strconv.Itoa(g.Number)
		gauge(notAfterDesc, float64(g.ends().Unix()), number)
		gauge(generationDesc, 1, number, g.Issuer().Subject.CommonName, s.state.role(g))
		if !g.UsedUntil.IsZero() {
			gauge(usedUntilDesc, float64(g.UsedUntil.Unix()), number)
		}
	}
}

// role is how metrics call what a generation is there for.
func (s State) role(g Generation) string {
	switch {
	case g.Number == s.Signing:
		return "signing"
	case g.Number > s.Signing:
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
