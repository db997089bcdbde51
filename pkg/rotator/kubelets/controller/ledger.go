package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/kubelets"
)

// ledger is what is known of the kubelets, by the name of their node.
type ledger struct {
	count *prometheus.Desc

	mu    sync.Mutex
	given map[string]kubelets.Given
	found map[string]api.KubeletState
}

func newLedger() *ledger {
	return &ledger{
		count: prometheus.NewDesc("servingcert_kubelets", "Nodes by what their kubelet serves, with --verify-kubelets: current, other, late, expired, not_issued, wrong_name, unreachable or not_verified.", []string{"state"}, nil),
		given: map[string]kubelets.Given{}, found: map[string]api.KubeletState{},
	}
}

// issued takes note of what a node was issued, and reports whether that is new.
func (l *ledger) issued(i *kubelets.Issued, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.given[i.Node]
	l.given[i.Node] = before.After(i, now)
	return l.given[i.Node] != before
}

func (l *ledger) givenTo(node string) kubelets.Given {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given[node]
}

// record takes note of a state, which it keeps the age of, and reports whether anything is new.
func (l *ledger) record(next api.KubeletState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.found[next.Node]
	if before.State == next.State {
		next.Since = before.Since
	}
	l.found[next.Node] = next
	return !known || before != next
}

// forget forgets a node that is gone, and reports whether it was known.
func (l *ledger) forget(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.found[node]
	delete(l.found, node)
	delete(l.given, node)
	return known
}

// all returns the states of all kubelets that were dialled.
func (l *ledger) all() []api.KubeletState {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]api.KubeletState, 0, len(l.found))
	for _, s := range l.found {
		out = append(out, s)
	}
	return out
}

// Describe implements prometheus.Collector.
func (l *ledger) Describe(ch chan<- *prometheus.Desc) { ch <- l.count }

// Collect implements prometheus.Collector.
func (l *ledger) Collect(ch chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, s := range l.all() {
		counts[s.State]++
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(l.count, prometheus.GaugeValue, float64(n), state)
	}
}
