package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// events returns "REASON NAME: NOTE" of each event about objects in a namespace,
// "default" for those that are in none.
func events(t *testing.T, namespace string) []string {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	list, err := clientset.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	for i := range list.Items {
		out = append(out, describe(&list.Items[i]))
	}
	return out
}

func describe(e *eventsv1.Event) string {
	repeated := ""
	if e.Series != nil {
		repeated = " (repeated)"
	}
	return fmt.Sprintf("%s %s: %s%s", e.Reason, e.Regarding.Name, e.Note, repeated)
}

// event waits for an event that has the words in its note, and returns it.
func event(t *testing.T, namespace, reason, name string, words ...string) string {
	t.Helper()
	found := ""
	harness.Eventually(t, func() error {
		all := events(t, namespace)
		for _, e := range all {
			if strings.HasPrefix(e, reason+" "+name+": ") && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e, w) }) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("no event %s on %s with %q; there are %q", reason, name, words, all)
	})
	return found
}

// series returns the values of a metric by its labels, "a=1 b=2".
func (r *rotator) series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range harness.Metrics(t, r.registry).With(name) {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return out
}

// shows waits until the metric has the value.
func (r *rotator) shows(t *testing.T, name, labels string, value float64) {
	t.Helper()
	harness.Eventually(t, func() error {
		all := r.series(t, name)
		if got, ok := all[labels]; !ok || got != value {
			return fmt.Errorf("%s{%s} is not %v: %v", name, labels, value, all)
		}
		return nil
	})
}

// settled waits until no write was sent for ten status delays: at rest, as far as
// a test can see.
func (r *rotator) settled(t *testing.T) {
	t.Helper()
	last, since := len(r.requests.since(0)), time.Now()
	harness.Eventually(t, func() error {
		if n := len(r.requests.since(0)); n != last {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < 10*statusDelay {
			return fmt.Errorf("quiet for %s only", quiet)
		}
		return nil
	})
}
