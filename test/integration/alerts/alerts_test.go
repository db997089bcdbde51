//go:build alerts

package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// world is servingcert as it is installed, and the Prometheus that watches it.
type world struct {
	t *testing.T // at whose end the processes end
	*server
	files                           string // a directory for the volume of each process
	signer, trust, rotator, webhook *process
}

// flags are those without which minutes or days would pass.
var (
	signerFlags  = []string{"--ca-soak=1s", "--ca-reissue-window=1s", "--approve-kubelet-serving", "--node-cidrs=10.0.0.0/24"}
	rotatorFlags = []string{"--propagation-time=1s", "--verify-interval=1s", "--pod-cidrs=127.0.0.0/8", "--max-restarts=1"}
)

// newWorld starts all five and waits until all is well.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: startPrometheus(t), files: t.TempDir()}
	w.signer = start(t, bin, "signer", w.dirOf("signer"), signerFlags...)
	w.trust = start(t, bin, "trust", w.dirOf("trust"))
	w.rotator = start(t, bin, "rotator", w.dirOf("rotator"), rotatorFlags...)
	// A program of these tests exits because of flags that it does not know.
	w.webhook = start(t, bin, "webhook", w.dirOf("webhook"), append(webhookAddress(t), "--cert-dir="+w.dirOf("webhook"), "--unknown-programs=flags")...)
	for _, p := range []*process{w.signer, w.trust, w.rotator, w.webhook} {
		w.project(t, p.name)
		w.scrapes(t, p)
	}
	w.trusts(t)
	harness.Eventually(t, func() error { return w.seen(t.Context(), 4) })
	return w
}

func (w *world) dirOf(name string) string { return filepath.Join(w.files, name) }

func (w *world) project(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, func() error { return project(t.Context(), name, w.dirOf(name)) })
}

// broken is one way to make one alert fire.
type broken struct {
	alert   string
	labels  map[string]string // beside that of the cluster
	how     string
	breaks  func(*testing.T, *world)
	mend    func(*testing.T, *world) // nil: it stays
	earlier bool                     // it may have fired and ended by now: what setUp broke goes on
	// again is done until the alert fires; nil: nothing.
	again func(context.Context, *world)
}

// table is in the order in which things are broken: what comes later needs what came before. What takes the rotator half
// a minute to judge is broken in setUp, before the first row.
func table() []broken {
	return slices.Concat(breaksOfTheWebhook(), breaksOfTrust(), breaksOfPods(), breaksOfKubelets(), breaksOfHosts(), breaksOfTheSigner(), breaksOfProcesses(), breaksOfTheCA())
}

// Each alert fires when what it watches is broken, and none does while all is well.
func TestEveryAlertFires(t *testing.T) {
	begun := time.Now()
	w := newWorld(t)
	harness.Eventually(t, func() error { return w.isWell(t.Context()) })
	setUp(t)
	fired := map[string]bool{}
	for _, b := range table() {
		fired[b.alert] = t.Run(b.alert, func(t *testing.T) { b.fires(t, w) })
	}
	for _, alert := range alertNames(t) {
		assert.True(t, fired[alert], "nothing here makes %s fire", alert)
	}
	w.showsEveryPanel(t, begun)
	w.hasListedMetrics(t)
}

// isWell returns an error while an alert fires. What starts and does not lead yet is reported for a second by rules that
// have lost their times.
func (w *world) isWell(ctx context.Context) error {
	firing, err := w.api().Firing(ctx)
	if err == nil && len(firing) > 0 {
		err = fmt.Errorf("all is well, but these fire: %v", firing)
	}
	return err
}

func (b broken) fires(t *testing.T, w *world) {
	started := time.Now()
	if b.breaks != nil {
		b.breaks(t, w)
	}
	if b.mend != nil {
		defer b.mend(t, w)
	}
	harness.Eventually(t, func() error {
		if b.again != nil {
			b.again(t.Context(), w)
		}
		if b.earlier {
			return w.fired(t.Context(), b.alert)
		}
		return w.fires(t.Context(), b.alert, b.labels)
	})
	t.Logf("%-38s %5.1f s  %s", fmt.Sprint(b.labels), time.Since(started).Seconds(), b.how)
}

// alertNames returns the names of all alerts.
func alertNames(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/alerts.yaml")
	require.NoError(t, err)
	var object struct {
		Spec struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &object))
	var names []string
	for _, g := range object.Spec.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
		}
	}
	require.NotEmpty(t, names)
	return names
}
