package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Events returns the events of a namespace that have the reason, about an object that is called NAME or "KIND NAME"; about
// any if about is empty.
func Events(t testing.TB, c client.Client, namespace, reason, about string) (found []eventsv1.Event) {
	t.Helper()
	var list eventsv1.EventList
	require.NoError(t, c.List(t.Context(), &list, client.InNamespace(namespace)))
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason == reason && (about == "" || about == e.Regarding.Name || about == e.Regarding.Kind+" "+e.Regarding.Name) {
			found = append(found, *e)
		}
	}
	return found
}

// Told waits for such an event, and returns it.
func Told(t testing.TB, c client.Client, namespace, reason, about string) (told eventsv1.Event) {
	t.Helper()
	Eventually(t, func() error {
		events := Events(t, c, namespace, reason, about)
		if len(events) == 0 {
			return fmt.Errorf("no event %s about %q in %s", reason, about, namespace)
		}
		told = events[0]
		return nil
	})
	return told
}

// Warnings collects the warnings of the API server.
type Warnings struct {
	mu    sync.Mutex
	lines []string
}

// WithWarnings returns a copy of cfg whose client's warnings are collected.
func WithWarnings(cfg *rest.Config) (*rest.Config, *Warnings) {
	w := &Warnings{}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = w
	return cfg, w
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

// Take returns the warnings since it was called last, a line each.
func (w *Warnings) Take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := strings.Join(w.lines, "\n")
	w.lines = nil
	return taken
}
