package controller

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/rotator/failing"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// ledger is what is remembered of the namespaces with injected pods that fail. Losing it, as a
// new leader does, costs an event for each failure.
type ledger struct {
	mu         sync.Mutex
	namespaces map[string]entry
	rounds     map[string]failing.Rounds // by namespace
}

type entry struct {
	failing int
	records map[failing.Key]failing.Record // replaced, never changed
}

func newLedger() *ledger {
	return &ledger{namespaces: map[string]entry{}, rounds: map[string]failing.Rounds{}}
}

// of returns what was reported of the namespace, and the deletions in it. It forgets the namespace's
// deletions when all of them are old.
func (l *ledger) of(namespace string, now time.Time) (map[failing.Key]failing.Record, failing.Rounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rounds := l.rounds[namespace]
	if rounds.Forget(now); len(rounds) == 0 {
		delete(l.rounds, namespace)
	}
	return l.namespaces[namespace].records, maps.Clone(rounds)
}

func (l *ledger) put(namespace string, n int, records map[failing.Key]failing.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 && len(records) == 0 {
		delete(l.namespaces, namespace)
		return
	}
	l.namespaces[namespace] = entry{n, records}
}

// deleted counts the deletion of the pod.
func (l *ledger) deleted(pod *pods.Facts, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rounds[pod.Namespace] == nil {
		l.rounds[pod.Namespace] = failing.Rounds{}
	}
	l.rounds[pod.Namespace].Add(pod, now)
}

var failingDesc = prometheus.NewDesc("servingcert_failing_workloads",
	"Workloads whose pods fail after the webhook gave them something, or are deleted for it, by namespace; absent if there are none.",
	[]string{"namespace"}, nil)

// Describe implements prometheus.Collector.
func (l *ledger) Describe(ch chan<- *prometheus.Desc) { ch <- failingDesc }

// Collect implements prometheus.Collector.
func (l *ledger) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	namespaces := maps.Clone(l.namespaces)
	l.mu.Unlock()
	for namespace, e := range namespaces {
		if e.failing > 0 {
			ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, float64(e.failing), namespace)
		}
	}
}
