package controller

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// ledger is what is known of the opted-in namespaces. Losing it, as a new leader
// does, costs an event for each group of missed pods. It shows at scrape what the
// last look at each namespace found.
type ledger struct {
	mu         sync.Mutex
	namespaces map[string]entry
}

type entry struct {
	pods    int // missed
	records map[uninjected.Key]uninjected.Record
}

func newLedger() *ledger { return &ledger{namespaces: map[string]entry{}} }

func (l *ledger) records(namespace string) map[uninjected.Key]uninjected.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.namespaces[namespace].records // replaced, never changed
}

func (l *ledger) put(namespace string, pods int, records map[uninjected.Key]uninjected.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.namespaces[namespace] = entry{pods, records}
}

func (l *ledger) forget(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.namespaces, namespace)
}

var missedDesc = prometheus.NewDesc("servingcert_missed_pods",
	"Pods that run without the Secret that they would get if they were created now, by opted-in namespace; absent where this replica does not lead.",
	[]string{"namespace"}, nil)

// Describe implements prometheus.Collector.
func (l *ledger) Describe(ch chan<- *prometheus.Desc) { ch <- missedDesc }

// Collect implements prometheus.Collector.
func (l *ledger) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	namespaces := maps.Clone(l.namespaces)
	l.mu.Unlock()
	for namespace, e := range namespaces {
		ch <- prometheus.MustNewConstMetric(missedDesc, prometheus.GaugeValue, float64(e.pods), namespace)
	}
}
