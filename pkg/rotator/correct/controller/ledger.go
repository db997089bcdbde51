package controller

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/correct"
)

// The results of a deletion: a label of servingcert_flags_deleted_pods_total.
const (
	resultDeleted   = "deleted"
	resultChanged   = "changed"   // it is gone, or not as it was judged; it is judged again
	resultForbidden = "forbidden" // no rights, or a policy refuses
	resultError     = "error"
)

// ledger is what the last look at each namespace found. What must outlive it is in the
// conditions.
type ledger struct {
	verdicts, deletions *prometheus.CounterVec

	mu         sync.Mutex
	namespaces map[string]entry
	read       map[string]correct.Readings // by namespace
}

type entry struct {
	withheld int
	memory   correct.Memory
}

func newLedger() *ledger {
	return &ledger{
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_flags_verdicts_total",
			Help: "Verdicts about flags that containers were given without a request, by verdict: withheld (the program exits because of them, or ignores them), suspected (the same, and nothing is done about it) or cleared (it exits without them too).",
		}, []string{"verdict"}),
		deletions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "servingcert_flags_deleted_pods_total",
			Help: "Deletions of pods that fail because of unrequested flags, by result: deleted, changed (the pod changed meanwhile), forbidden or error.",
		}, []string{"result"}),
		namespaces: map[string]entry{}, read: map[string]correct.Readings{},
	}
}

// memory returns what was reported about the namespace. It is replaced, never changed.
func (l *ledger) memory(namespace string) correct.Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.namespaces[namespace].memory
}

func (l *ledger) put(namespace string, withheld int, memory correct.Memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if withheld == 0 && len(memory) == 0 {
		delete(l.namespaces, namespace)
		return
	}
	l.namespaces[namespace] = entry{withheld, memory}
}

// readings returns what the pods of the namespace were found to say. They are replaced, never
// changed.
func (l *ledger) readings(namespace string) correct.Readings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read[namespace]
}

func (l *ledger) keep(namespace string, r correct.Readings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(r) == 0 {
		delete(l.read, namespace)
		return
	}
	l.read[namespace] = r
}

func (l *ledger) count(v state.Verdict) { l.verdicts.WithLabelValues(string(v)).Inc() }

func (l *ledger) deleted(result string) { l.deletions.WithLabelValues(result).Inc() }

var withheldDesc = prometheus.NewDesc("servingcert_flags_withheld",
	"Containers' flags that new pods do not get because the program exits because of them or ignores them, by namespace; absent if there are none.",
	[]string{"namespace"}, nil)

// Describe implements prometheus.Collector.
func (l *ledger) Describe(ch chan<- *prometheus.Desc) {
	ch <- withheldDesc
	l.verdicts.Describe(ch)
	l.deletions.Describe(ch)
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	namespaces := maps.Clone(l.namespaces)
	l.mu.Unlock()
	for namespace, e := range namespaces {
		if e.withheld > 0 {
			ch <- prometheus.MustNewConstMetric(withheldDesc, prometheus.GaugeValue, float64(e.withheld), namespace)
		}
	}
	l.verdicts.Collect(ch)
	l.deletions.Collect(ch)
}
