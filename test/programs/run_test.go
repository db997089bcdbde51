//go:build linux && programs

package programs

import (
	"fmt"
	"io"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	table "github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// row is what was seen of one program.
type row struct {
	name string
	// without is what its port answers without what the entry gives.
	without string
	// kept is true if the first handshake after the renewal still showed the old leaf.
	kept bool
	// how is what made it serve the new one, and took how long that took.
	how  table.Reload
	took time.Duration
}

func TestPrograms(t *testing.T) {
	log.SetOutput(io.Discard)
	r := newRoot(t, debianPackages...)
	ca := rotatortest.NewCA(t, 1, time.Now())

	var mu sync.Mutex
	rows := map[string]row{}
	t.Run("each", func(t *testing.T) {
		lists.Add(1)
		for _, p := range list {
			t.Run(p.name, func(t *testing.T) {
				listed.Add(1)
				t.Parallel()
				got := play(t, r, ca, p)
				mu.Lock()
				defer mu.Unlock()
				rows[p.name] = got
			})
		}
	})
	t.Log("\n" + tableOf(rows))
}

// play runs a program and renews its certificate.
func play(t *testing.T, r *root, ca rotatortest.CA, p program) row {
	entry := entryOf(t, p.name)
	got := row{name: p.name, without: "(not run)", how: entry.Reload}
	if !p.once {
		got.without = without(t, r, ca, p)
	}
	s := newSite(t, r, p)
	address := fmt.Sprintf("%s:%d", s.at, p.port)
	pod := inject(t, newPod(s, p))
	names := []string{serverName, "web." + p.name + ".svc"}
	old, renewed := ca.Issue(t, time.Now().Add(-time.Minute), names...), ca.Issue(t, time.Now(), names...)
	bundle := pki.NewBundle(ca.Root).PEM()

	s.project(t, pod, &old, bundle)
	running := s.runPod(t, p, pod)
	serves := func(leaf string) {
		t.Helper()
		running.until(t, "it serves the certificate at "+address, func() (bool, string) {
			found, instead := handshake(t, address, p.protocol, ca.Root)
			return found == leaf, found + instead
		})
	}
	serves(pki.Fingerprint(old.Leaf))
	inCluster := publish(t, s, p, pod)
	inCluster.hold(t, &old, bundle)
	inCluster.reports(t, "current")
	inCluster.hold(t, &renewed, bundle)
	inCluster.reports(t, "older", "stale")

	s.project(t, pod, &renewed, bundle)
	start := time.Now()
	shown, _ := handshake(t, address, p.protocol, ca.Root)
	got.kept = shown == pki.Fingerprint(old.Leaf)
	switch entry.Reload {
	case table.ReloadSignal:
		require.NoError(t, running.cmd.Process.Signal(*signalOf(entry)))
	case table.ReloadRequest:
		p.ask(t, s)
	case table.ReloadRestart:
		running.stop()
		running = s.runPod(t, p, pod)
	case table.ReloadItself:
	}
	serves(pki.Fingerprint(renewed.Leaf))
	got.took = time.Since(start)
	inCluster.reports(t, "current")
	return got
}

// without runs the program without what the entry gives, and returns what is at the port
// that serves the certificate otherwise.
func without(t *testing.T, r *root, ca rotatortest.CA, p program) string {
	s := newSite(t, r, p)
	running := s.runPod(t, p, newPod(s, p))
	defer running.stop()
	running.accepts(t, fmt.Sprintf("%s:%d", s.at, p.plainPort()))
	leaf, instead := handshake(t, fmt.Sprintf("%s:%d", s.at, p.port), p.protocol, ca.Root)
	require.Empty(t, leaf, "it serves a certificate of the CA although it was not given one")
	return instead
}

// tableOf returns what was seen, for the log.
func tableOf(rows map[string]row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %-20s %-9s %-12s %s\n", "program", "without the entry", "renewal", "right after", "until the new one is served")
	for _, p := range list {
		got, ran := rows[p.name]
		if !ran {
			continue
		}
		after := "new"
		if got.kept {
			after = "old"
		}
		fmt.Fprintf(&b, "%-24s %-20s %-9s %-12s %s\n", got.name, got.without, got.how, after, got.took.Round(10*time.Millisecond))
	}
	return b.String()
}
